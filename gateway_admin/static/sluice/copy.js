// Copies the text of an element, also where the browser offers no clipboard (plain HTTP from another machine).
(() => {
  const select = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  };

  const copy = async (element) => {
    select(element);
    if (navigator.clipboard && window.isSecureContext) {
      await navigator.clipboard.writeText(element.textContent);
    } else {
      document.execCommand("copy");
    }
  };

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      await copy(document.getElementById(button.dataset.copy));
      button.textContent = button.dataset.done;
    });
  }

  // This page answered a form: reloading it would send the form again and make another key.
  const page = document.querySelector("[data-page-url]");
  if (page) {
    window.history.replaceState(null, "", page.dataset.pageUrl);
  }
})();
