/* What the build knows about ONNX Runtime, see vite.config.ts. */

declare module 'virtual:onnx-runtime' {
  /** name: of the file, in the folder of the page. It is compressed by gzip. */
  export const runtime: { name: string; bytes: number; sha256: string };
}
