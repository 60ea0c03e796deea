import { describe, expect, test } from 'vitest';
import { clockSkew, type LoginState, loginProblems } from './login-state.ts';

const NOW = Date.parse('2026-11-27T12:00:00Z');
const GOOD: LoginState = { mode: 'embedded', publicUrl: 'https://plant.example', keySince: '2026-11-01T00:00:00Z' };

describe('logins', () => {
  test.each<[string, Partial<LoginState>, RegExp[]]>([
    ['with https, a young key and no generated password', {}, []],
    ['at a loopback address', { publicUrl: 'http://127.0.0.1:51121' }, []],
    ['over http', { publicUrl: 'http://plant.example' }, [/^http:\/\/plant.example is no https/]],
    ['with a provider that is down', { mode: 'external', problem: 'ECONNREFUSED' }, [/cannot be asked: ECONNREFUSED$/]],
    ['with the generated password', { hasFirstPassword: true }, [/still the generated password/]],
    ['with a key of 400 days', { keySince: '2025-10-23T12:00:00Z' }, [/signed for 400 days/]],
    ['before their key is known', { keySince: 'soon' }, []],
  ])('%s have these problems', (_, state, expected) => {
    const found = loginProblems({ ...GOOD, ...state }, NOW).map(({ detail }) => detail);
    expect(found).toEqual(expected.map((one) => expect.stringMatching(one)));
  });
});

describe('the clock of a replica', () => {
  test.each([
    ['that agrees', '2026-11-27T12:00:01.500000Z', undefined],
    ['a minute ahead', '2026-11-27T12:01:00.000000Z', 60],
    ['a minute behind', '2026-11-27T11:59:00.000000Z', -60],
  ])('%s has this skew', (_, renewTime, skew) => {
    expect(clockSkew(renewTime, '2026-11-27T12:00:00Z')).toBe(skew);
  });

  test('has no skew while nobody has written its Lease', () => {
    expect(clockSkew('2026-11-27T12:00:00Z', undefined)).toBeUndefined();
  });
});
