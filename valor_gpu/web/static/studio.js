// Every page works without scripts. With them, parts of a page are read again in place, keys lead through it, menus
// close on Escape, and buttons say that the server is at work. Each module is one of these.
import "./busy.js";
import "./copy.js";
import "./keys.js";
import "./live.js";
import "./menus.js";
import "./roving.js";
import "./swap.js";

document.documentElement.classList.add("js");
