// A comparison of two runs: its words in another language; ?lang=zh in the address keeps the choice.
const data = { words: JSON.parse(document.getElementById("data").textContent) };
let language = document.documentElement.lang.slice(0, 2);
const written = language;

function route() {
  const wanted = new URLSearchParams(location.hash.replace(/^#\??/, "")).get("lang") ?? written;
  if (Object.hasOwn(data.words, wanted)) translateWords(wanted);
}

document.getElementById("language").addEventListener("change", (event) => {
  location.hash = event.target.value === written ? "" : `?lang=${event.target.value}`;
});
window.addEventListener("hashchange", route);
// Paper has no closed parts.
window.addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details")) one.open = true;
});
route();
