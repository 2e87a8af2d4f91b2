// Whoever signs in from the address of an object gets there: redirects keep what stands behind the #.

const form = document.querySelector("form");
form.addEventListener("submit", () => (form.action = `/login${location.hash}`));
