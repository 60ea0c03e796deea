import { expect, test } from 'vitest';
import { makeClock } from '../agents/_util.ts';
import { createVerifier } from './internal-verifier.ts';

/** A verifier to which the tokens that begin with `replica` belong to replicas, and the tokens that were reviewed. */
function start() {
  const clock = makeClock();
  const reviewed: string[] = [];
  const verify = createVerifier(
    {
      verify: async (token) => {
        reviewed.push(token);
        return token.startsWith('replica');
      },
    },
    clock,
  );
  const codeOf = (token: string, address: string) =>
    verify(`Bearer ${token}`, address).then(
      () => 'allowed',
      ({ code }) => code as string,
    );
  return { clock, reviewed, codeOf };
}

async function guess(codeOf: ReturnType<typeof start>['codeOf'], address: string, count: number) {
  const codes: string[] = [];
  for (let i = 0; i < count; i++) codes.push(await codeOf(`guess-${address}-${i}`, address));
  return codes;
}

test('an address that guesses tokens of replicas is refused further reviews, and no other address is', async () => {
  const { reviewed, codeOf } = start();
  const codes = await guess(codeOf, '10.0.0.9', 60);
  expect(codes.slice(50)).toEqual(Array(10).fill('TOO_MANY_REQUESTS'));
  expect(reviewed).toHaveLength(50);
  expect(await codeOf('replica-1', '10.0.0.1')).toBe('allowed');
});

test('a token that was allowed within the hour passes although its address has no reviews left', async () => {
  const { clock, reviewed, codeOf } = start();
  expect(await codeOf('replica-1', '10.0.0.1')).toBe('allowed');
  await clock.advance(50 * 60_000, { timers: 0 });
  await guess(codeOf, '10.0.0.1', 60);
  reviewed.length = 0;
  expect(await codeOf('replica-1', '10.0.0.1')).toBe('allowed');
  expect(reviewed).toEqual(['replica-1']);
  expect(await codeOf('replica-2', '10.0.0.1')).toBe('TOO_MANY_REQUESTS');
});

test('denied verdicts make room first, so that thousands of guesses cost no replica another review', async () => {
  const { reviewed, codeOf } = start();
  expect(await codeOf('replica-1', '10.0.0.1')).toBe('allowed');
  for (let address = 0; address < 40; address++) await guess(codeOf, `10.1.0.${address}`, 50);
  reviewed.length = 0;
  expect(await codeOf('replica-1', '10.0.0.1')).toBe('allowed');
  expect(reviewed).toEqual([]);
});
