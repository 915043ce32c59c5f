"use strict";
// Every page with a script begins with these. Texts of records reach the page as text: never from strings of markup.

function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== ""));
  return made;
}

const grouped = (number) => number.toLocaleString("en");

