import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { ROOT } from './paths.ts';

/** The script of the pages of a login as browsers get it: one file, with the package that draws QR codes. */
export function loginScript(): string {
  const { outputFiles } = buildSync({
    absWorkingDir: ROOT,
    entryPoints: [join(ROOT, 'src/login-pages/browser/main.ts')],
    bundle: true,
    write: false,
    platform: 'browser',
    format: 'iife',
    target: 'es2022',
    charset: 'ascii',
    minify: true,
    legalComments: 'inline',
    tsconfigRaw: '{}',
  });
  return outputFiles[0]?.text ?? '';
}
