import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { lastWords } from './last-words.ts';

const cases: Record<string, [log: string[], shown: string]> = {
  'warnings and errors of the controller are shown with their reason, and nothing else of its log': [
    [
      '{"level":30,"time":1,"msg":"Started"}',
      '{"level":50,"time":2,"msg":"The API server does not answer","err":{"message":"connect ECONNREFUSED","stack":"..."}}',
      '{"level":30,"time":3,"msg":"Bye"}',
    ],
    'ERROR The API server does not answer: connect ECONNREFUSED',
  ],
  'warnings and errors of the agent are shown with their reason': [
    ['{"timestamp":"t","level":"WARN","message":"No disk","error":"ENOSPC"}', '{"level":"INFO","message":"Bye"}'],
    'WARN No disk: ENOSPC',
  ],
  'lines that are not structured are shown as they are': [
    ['{"level":30,"msg":"Started"}', 'Error: no', '    at main'],
    'Error: no\n    at main',
  ],
  'the last line is shown where no line matters': [['{"level":30,"msg":"A"}', '{"level":30,"msg":"B"}'], 'INFO B'],
  'the last eight lines that matter are shown': [
    Array.from({ length: 20 }, (_, i) => `line ${i}`),
    Array.from({ length: 8 }, (_, i) => `line ${i + 12}`).join('\n'),
  ],
  'nothing is shown of an empty log': [[], ''],
};

for (const [title, [log, shown]] of Object.entries(cases))
  test(title, () => {
    const folder = temporaryFolder();
    const file = join(folder, 'part.log');
    writeFileSync(file, log.map((line) => `${line}\n`).join(''));
    expect(lastWords(file)).toBe(shown);
  });
