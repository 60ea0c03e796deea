import { readFileSync } from 'node:fs';
import { StandInRouter } from './standin.ts';

/** The stand-in as a program: `main.ts -c <skrouterd.json>`. It ends with 1 when the configuration is refused. */
const file = process.argv[process.argv.indexOf('-c') + 1] ?? '';
try {
  const router = new StandInRouter(JSON.parse(readFileSync(file, 'utf8')));
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      router.close();
      process.exit(0);
    });
} catch (error) {
  process.stderr.write(`Cannot start with ${file}: ${(error as Error).message}\n`);
  process.exit(1);
}
