/* The parts of Node that vite.config.ts uses. The package with all its types would be installed for these lines only. */

declare module 'node:fs/promises' {
  export function readdir(path: string, options: { recursive: true }): Promise<string[]>;
  export function readFile(path: string): Promise<Uint8Array>;
  export function writeFile(path: string, content: Uint8Array): Promise<void>;
}

declare module 'node:path' {
  export function join(...parts: string[]): string;
}

declare module 'node:zlib' {
  export const constants: { BROTLI_PARAM_QUALITY: number; BROTLI_PARAM_SIZE_HINT: number };
  export function brotliCompressSync(text: Uint8Array, options: { params: Record<number, number> }): Uint8Array;
  export function gzipSync(text: Uint8Array, options: { level: number }): Uint8Array<ArrayBuffer>;
}

declare module 'node:url' {
  export function fileURLToPath(address: URL): string;
}
