/* The packages, built in memory as they are published. */

import { gzipSync } from 'node:zlib';
import { build, type Rollup } from 'vite';

export class BuiltPackage {
  private constructor(readonly chunks: readonly Rollup.OutputChunk[]) {}

  static async build(folder: string): Promise<BuiltPackage> {
    const built = await build({
      configFile: `${folder}/vite.config.ts`,
      logLevel: 'silent',
      build: { write: false },
    });
    const outputs = (Array.isArray(built) ? built : [built]) as Rollup.RollupOutput[];
    return new BuiltPackage(outputs.flatMap(({ output }) => output.filter((each) => each.type === 'chunk')));
  }

  /** An entry and what it imports. */
  loadedWith(name: string): Rollup.OutputChunk[] {
    const chunk = this.chunks.find(({ fileName }) => fileName === name);
    if (!chunk) throw new Error(`the package has no ${name}`);
    return [chunk, ...chunk.imports.flatMap((each) => this.loadedWith(each))];
  }

  /** What a page loads for an entry, compressed. */
  measureBytes(name: string): number {
    const code = this.loadedWith(name).map(({ code }) => code);
    return gzipSync(new TextEncoder().encode(code.join('\n')), { level: 9 }).length;
  }

  /** What the package imports from elsewhere. */
  get foreign(): string[] {
    const names = this.chunks.map(({ fileName }) => fileName);
    return this.chunks.flatMap(({ imports }) => imports).filter((each) => !names.includes(each));
  }
}
