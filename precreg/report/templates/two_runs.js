// The words of the page in another language; ?lang=zh in the address keeps the choice.
const words = JSON.parse(document.getElementById("data").textContent);
const written = document.documentElement.lang;

function say(key, values) {
  const text = (words[document.documentElement.lang] ?? words.en)[key] ?? words.en[key];
  return text.replaceAll(/\{(\w+)\}/g, (_, name) => values[name]);
}

function translate(wanted) {
  document.documentElement.lang = wanted;
  document.getElementById("language").value = wanted;
  for (const one of document.querySelectorAll("[data-say]")) one.textContent = say(one.dataset.say, JSON.parse(one.dataset.values ?? "{}"));
}

function route() {
  const wanted = new URLSearchParams(location.hash.replace(/^#\??/, "")).get("lang") ?? written;
  if (Object.hasOwn(words, wanted)) translate(wanted);
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
