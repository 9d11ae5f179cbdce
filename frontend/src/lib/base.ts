/* The path under which this page is served: "/" or, behind a proxy, a prefix such as "/online/".

   All pages are in one folder (/online/, /online/draw, ...), and so are the files, the API and the
   service worker. The folder follows from the address of the document, so the same build works under
   any prefix.
*/

/** "https://host/online/draw?model=digits" -> "/online/". */
export const folderOf = (address: string): string => new URL('./', address).pathname;

/** Read once: the address of the document changes as the page navigates. */
export const BASE_PATH = typeof document === 'undefined' ? '/' : folderOf(document.baseURI);
