// The box to type in: both encodings of what is typed, with their ids.
const encoder = new Encoder(JSON.parse(document.getElementById("box").textContent));
const typed = document.getElementById("typed");

function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function code(token) {
  return element("code", "", encoder.show(token));
}

// Fills a side: each pre-token's tokens, with what idOf says of each, framed where `of` names a scaffold token.
function fill(side, pretokens, tokensOf, ofOf, idOf) {
  const shown = document.getElementById(`${side}-cut`);
  shown.replaceChildren(...pretokens.map((pretoken) => {
    const chips = tokensOf(pretoken).map((token, i) =>
      element("span", ofOf(pretoken)[i] === undefined ? "token" : "token part",
        element("span", "", encoder.show(token)), element("small", "", String(idOf(token)))));
    return element(pretoken.differs ? "mark" : "span", "pretoken", ...chips);
  }));
  const ids = pretokens.flatMap((pretoken) => tokensOf(pretoken).map(idOf));
  document.querySelector(`#${side}-heading span`).textContent = `${ids.length.toLocaleString("en")} tokens`;
  shown.parentElement.querySelector("details code").textContent = `[${ids.join(", ")}]`;
}

function show() {
  const pretokens = encoder.encode(typed.value);
  fill("plain", pretokens, (p) => p.plain, () => [], (token) => token);
  fill("scaffold", pretokens, (p) => p.scaffold, (p) => p.of, (token) => encoder.ids[token]);
  const differing = pretokens.filter((p) => p.differs).length;
  document.getElementById("found").textContent = pretokens.length === 0 ? "" :
    `${differing.toLocaleString("en")} of ${pretokens.length.toLocaleString("en")} pre-tokens are encoded differently.`;
  const demolished = [...new Set(pretokens.flatMap((p) => p.of).filter((token) => token !== undefined))];
  const list = document.getElementById("demolished");
  list.hidden = demolished.length === 0;
  list.querySelector("ul").replaceChildren(...demolished.map((token) =>
    element("li", "", code(token), " into ", ...encoder.demolished(token).flatMap((part) => [code(part), " "]))));
}

typed.addEventListener("input", show);
show();
document.querySelector(".box").hidden = false;
