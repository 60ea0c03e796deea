import { describe, expect, test, vi } from 'vitest';
import type { VerifiedBearer } from '../../identity/contract/tokens.ts';
import { createDispatch } from './dispatch.ts';

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
const token = (claims: object, header: object = { alg: 'RS256' }) => `${part(header)}.${part(claims)}.c2ln`;

function dispatching(accepts: (token: string) => VerifiedBearer | undefined = () => undefined) {
  const asked: string[] = [];
  const reviewed: string[] = [];
  const guesses = { unknown: vi.fn(), wrong: vi.fn() };
  const { authenticate } = createDispatch({
    byIssuer: (issuer) => {
      if (issuer === 'https://nodes.example') return 'refused';
      if (issuer !== 'https://ours.example') return undefined;
      return {
        async verify(given) {
          asked.push(given);
          return accepts(given);
        },
      };
    },
    cluster: {
      async authenticate(given) {
        reviewed.push(given);
        return { name: 'reviewed', groups: [] };
      },
    },
  });
  return { asked, reviewed, guesses, ask: (given: string) => authenticate(given, AbortSignal.timeout(5_000), guesses) };
}

describe('the issuer that a token names', () => {
  test.each([
    ['that the verifier refuses', token({ iss: 'https://ours.example' })],
    ['without an algorithm', `${token({ iss: 'https://ours.example' }, { alg: 'none' }).replace(/c2ln$/, '')}`],
    ['of two parts', `${part({})}.${part({ iss: 'https://ours.example' })}`],
    ['whose header is nonsense', `!.${part({ iss: 'https://ours.example' })}.!`],
  ])('is never asked of the cluster for a token %s', async (_, given) => {
    const { ask, asked, reviewed } = dispatching();
    expect(await ask(given)).toBeUndefined();
    expect(asked).toEqual([given]);
    expect(reviewed).toEqual([]);
  });

  test('is refused where nobody verifies its tokens, as a wrong guess', async () => {
    const { ask, asked, reviewed, guesses } = dispatching();
    expect(await ask(token({ iss: 'https://nodes.example' }))).toBeUndefined();
    expect([asked, reviewed]).toEqual([[], []]);
    expect(guesses.wrong).toHaveBeenCalledTimes(1);
  });

  test.each([
    ['another issuer', token({ iss: 'https://kubernetes.default.svc' })],
    ['another spelling of it', token({ iss: 'https://ours.example/' })],
    ['no issuer', token({ sub: 'x' })],
    ['no text', token({ iss: ['https://ours.example'] })],
    ['nothing', 'opaque'],
  ])('is the cluster for a token that names %s', async (_, given) => {
    const { ask, reviewed } = dispatching();
    expect(await ask(given)).toEqual({ name: 'reviewed', groups: [] });
    expect(reviewed).toEqual([given]);
  });
});

test('an accepted token names the caller as roles do, with the name people know', async () => {
  const user = { name: 'skerry:ann', uid: 'u', groups: ['skerry:sre'] };
  const { ask } = dispatching(() => ({
    user,
    human: 'ann',
    door: 'embedded',
    gate: 'PASSWORD_CHANGE_REQUIRED',
    subject: 'u',
  }));
  expect(await ask(token({ iss: 'https://ours.example' }))).toEqual({
    ...user,
    ...{ human: 'ann', gate: 'PASSWORD_CHANGE_REQUIRED', subject: 'u' },
  });
});
