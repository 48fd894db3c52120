// Search runs in a worker, and browsers start no worker from a file: there, a hidden frame runs the worker's script instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      // The worker's globals: it answers by postMessage, and loads languages by importScripts.
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...names) => Promise.all(names.map((name) => load(inside.document, name)));
      this.ready = load(inside.document, url);
      this.inside = inside;
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
}

function load(page, url) {
  return new Promise((resolve, reject) => {
    const script = page.createElement("script");
    Object.assign(script, { src: url, onload: resolve, onerror: reject });
    page.body.append(script);
  });
}
