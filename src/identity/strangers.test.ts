import { describe, expect, test } from 'vitest';
import { createStrangers } from './strangers.ts';

/** What people without a login may make an installation write. */
const ATTACKER = '192.0.2.66';

function strangersAt({ replicas = 1 } = {}) {
  const clock = { at: 0, now: () => clock.at };
  const strangers = createStrangers({ clock, replicas: () => replicas });
  /** how many of these attempts may write */
  const permitted = (times: number, attempt: (i: number) => void) => {
    let count = 0;
    for (let i = 0; i < times; i++)
      try {
        attempt(i);
        count++;
      } catch (error) {
        expect(error).toMatchObject({ status: 429, headers: { 'retry-after': expect.any(String) } });
      }
    return count;
  };
  return { clock, strangers, permitted };
}

describe('attempts of strangers', () => {
  test.each([
    [1, 20, 10],
    [2, 10, 5],
  ])('write at each of %i replicas at most %i times at once, and %i times a second', (replicas, atOnce, perSecond) => {
    const { clock, strangers, permitted } = strangersAt({ replicas });
    const attempt = (i: number) => void strangers.charge(`192.0.2.${i % 250}`, undefined);
    expect(permitted(1_000, attempt)).toBe(atOnce);
    clock.at += 1_000;
    expect(permitted(1_000, attempt)).toBe(perSecond);
  });

  test('take nothing of the bound when they succeed, however often their refund is asked for', () => {
    const { strangers, permitted } = strangersAt();
    const attempt = () => {
      const charged = strangers.charge(ATTACKER, undefined);
      charged.refund();
      charged.refund();
    };
    expect(permitted(100, attempt)).toBe(100);
    expect(permitted(100, () => void strangers.charge(ATTACKER, undefined))).toBe(20);
  });

  test('leave half of the bound to other addresses once they have failed, for ten minutes', () => {
    const { clock, strangers, permitted } = strangersAt();
    strangers.failed(ATTACKER);
    const attempt = (address: string) => () => void strangers.charge(address, undefined);
    expect(permitted(100, attempt(ATTACKER))).toBe(10);
    expect(permitted(100, attempt('192.0.2.1'))).toBe(10);
    clock.at += 601_000;
    expect(permitted(100, attempt(ATTACKER))).toBe(20);
  });
});

test('an address begins twenty logins in the browser at once, and others begin theirs', () => {
  const { strangers, permitted } = strangersAt();
  expect(permitted(100, () => strangers.interaction(ATTACKER))).toBe(20);
  expect(permitted(1, () => strangers.interaction('192.0.2.1'))).toBe(1);
});
