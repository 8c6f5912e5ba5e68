// What the theme lacks for readers with a keyboard or a screen reader: names, and a way to scroll.
document$.subscribe(() => {
  document.querySelectorAll(".md-search").forEach((search) => search.setAttribute("aria-label", "Search"));
  document.querySelectorAll(".md-typeset pre > code, .md-typeset__scrollwrap").forEach((part) => (part.tabIndex = 0));
  const name = () =>
    document.querySelectorAll(".md-code__nav").forEach((nav, i) => nav.setAttribute("aria-label", `Code ${i + 1}`));
  name();
  new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
});
