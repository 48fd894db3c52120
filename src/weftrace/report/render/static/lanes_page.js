// The lane picture of a rank on a page of its own, as `weftrace lanes -o lanes.html` writes it.

import { lanePicture } from "render/lanes.js";
import { startPage } from "render/start.js";

startPage("weftrace-lanes", (/** @type {{ picture: page.Lanes, view_ns: [number, number] }} */ block) => {
  const lanes = lanePicture({
    accounts: () => ({ compute: [], communication: [], hidden: [], exposed: [], busy: [] }),
    onBox: () => {},
    onRange: () => {},
  });
  lanes.show(block.picture, null);
  lanes.view.set(...block.view_ns);
  return { block, lanes };
});
