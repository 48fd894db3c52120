"""`weftrace query`: options in, a question asked, the answer handed out."""
