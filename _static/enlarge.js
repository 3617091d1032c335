// A chapter's figure opens alone when it is pressed, so that a phone can show it larger.
document.addEventListener("DOMContentLoaded", () => {
  for (const image of document.querySelectorAll("article figure img")) {
    if (image.closest("a")) continue;
    const link = Object.assign(document.createElement("a"), { href: image.src, className: "enlarge" });
    image.replaceWith(link);
    link.append(image);
  }
});
