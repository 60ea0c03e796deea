import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import type { CommandContext } from './command.ts';
import { createNotices } from './notices.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
});

/** What is shown of notices, each with the ms that pass after it. */
function shown(isTTY: boolean, ...notices: readonly (readonly [text: string, ms: number])[]): string[] {
  const seen: string[] = [];
  const streams = { errors: { isTTY } } as unknown as CommandContext['streams'];
  const { show, end } = createNotices({ flags: {}, streams, err: (text) => void seen.push(text) }, '[shop/web] ');
  for (const [text, ms] of notices) {
    show(text);
    vi.advanceTimersByTime(ms);
  }
  end();
  return seen;
}

const WAITING = 'waiting for the agent of the node to connect';

test.each<[sentence: string, isTTY: boolean, ms: number, seen: string[]]>([
  ['a person is told of a connection that takes longer than a second', true, 1_001, [`[shop/web] ${WAITING}\r\n`]],
  ['a person is not told of a connection that takes a moment', true, 900, []],
  ['a script is told of a connection that takes longer than five seconds', false, 5_001, [`[shop/web] ${WAITING}\n`]],
  ['a script is not told of a connection that takes a few seconds', false, 4_900, []],
])('%s', (_, isTTY, ms, seen) => {
  expect(shown(isTTY, [WAITING, ms])).toEqual(seen);
});

test('the end of a wait that was shown is shown too, and the end of a short one is not', () => {
  expect(shown(false, [WAITING, 6_000], ['connected', 0])).toEqual([
    `[shop/web] ${WAITING}\n`,
    '[shop/web] connected\n',
  ]);
  expect(shown(false, [WAITING, 100], ['connected', 9_000])).toEqual([]);
});
