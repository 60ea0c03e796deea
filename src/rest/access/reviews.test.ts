import { describe, expect, test } from 'vitest';
import { createReviewCache } from './review-cache.ts';
import { createAccessReviewAuthorizer, createTokenReviewAuthenticator, type Reviewer } from './reviews.ts';

const signal = AbortSignal.timeout(30_000);
type Review = {
  spec: { token?: string; audiences?: string[]; user?: string; resourceAttributes?: Record<string, string> };
};

/** A reviewer whose responses come from a function, and which records the reviews. */
function makeReviewer(answer: (review: Review) => object | Promise<object>): Reviewer & { asked: Review[] } {
  const asked: Review[] = [];
  return {
    asked,
    async post<T>(_path: string, body: object) {
      asked.push(body as Review);
      return (await answer(body as Review)) as T;
    },
  };
}

const user = { username: 'ann', uid: '1', groups: ['g'] };
const accepted = { status: { authenticated: true, audiences: ['skerry'], user } };
const jwt = (exp: number) => `a.${Buffer.from(JSON.stringify({ exp })).toString('base64url')}.c`;

describe('authentication by TokenReview', () => {
  test('a token for our audience authenticates its user', async () => {
    const reviewer = makeReviewer(() => accepted);
    const authenticator = createTokenReviewAuthenticator({ reviewer });
    expect(await authenticator.authenticate('abc', signal)).toEqual({ name: 'ann', uid: '1', groups: ['g'] });
    expect(reviewer.asked[0]?.spec).toEqual({ token: 'abc', audiences: ['skerry'] });
  });

  test('a token is refused when the API server returns no audiences', async () => {
    const reviewer = makeReviewer(() => ({ status: { authenticated: true, user } }));
    expect(await createTokenReviewAuthenticator({ reviewer }).authenticate('abc', signal)).toBeUndefined();
  });

  test('a token for the API server itself is accepted only if configured', async () => {
    const answer = ({ spec }: Review) => (spec.audiences ? { status: {} } : { status: { authenticated: true, user } });
    const strict = createTokenReviewAuthenticator({ reviewer: makeReviewer(answer) });
    expect(await strict.authenticate('abc', signal)).toBeUndefined();
    const lenient = createTokenReviewAuthenticator({ reviewer: makeReviewer(answer), acceptApiServerTokens: true });
    expect((await lenient.authenticate('abc', signal))?.name).toBe('ann');
  });

  test('a token is accepted only for the configured audience', async () => {
    const reviewer = makeReviewer(({ spec }) => ({
      status: { authenticated: true, user, audiences: spec.audiences?.filter((one) => one === 'plant') ?? [] },
    }));
    const authenticator = createTokenReviewAuthenticator({ reviewer, audience: 'plant' });
    expect((await authenticator.authenticate('abc', signal))?.name).toBe('ann');
    expect(await createTokenReviewAuthenticator({ reviewer }).authenticate('abc', signal)).toBeUndefined();
  });

  test('a token that expired from the cache is reviewed again and is not limited as unknown', async () => {
    let now = 0;
    const reviewer = makeReviewer(({ spec }) => (spec.token === 'good' ? accepted : { status: {} }));
    const authenticator = createTokenReviewAuthenticator({ reviewer, now: () => now });
    const guesses = {
      unknown: () => {
        throw new Error('too many unknown tokens from this address');
      },
      wrong: () => {},
    };
    await authenticator.authenticate('good', signal);
    now = 61_000;
    expect((await authenticator.authenticate('good', signal, guesses))?.name).toBe('ann');
    expect(reviewer.asked).toHaveLength(2);
    await expect(authenticator.authenticate('bad', signal, guesses)).rejects.toThrow();
    now += 2 * 3_600_000;
    await expect(authenticator.authenticate('good', signal, guesses)).rejects.toThrow();
  });

  test('the subject of an accepted token is proven for a day, also when wrong tokens name it', async () => {
    let now = 0;
    const reviewer = makeReviewer(({ spec }) => (spec.token?.endsWith('.c') ? accepted : { status: {} }));
    const authenticator = createTokenReviewAuthenticator({ reviewer, now: () => now });
    const subjects: (string | undefined)[] = [];
    const guesses = { unknown: (subject?: string) => void subjects.push(subject), wrong: () => {} };
    const claims = { iss: 'https://cluster', sub: 'ann' };
    const ask = (issuedAt: number, signature = 'c') => {
      const payload = Buffer.from(JSON.stringify({ ...claims, iat: issuedAt })).toString('base64url');
      return authenticator.authenticate(`a.${payload}.${signature}`, signal, guesses);
    };
    await ask(1);
    await ask(1, 'wrong');
    await ask(2);
    now = 25 * 3_600_000;
    await ask(3);
    expect(subjects.map((subject) => subject !== undefined)).toEqual([false, true, true, false]);
  });

  test('a review is cached: 60 s if accepted, 5 s if refused, never beyond the expiry of the token', async () => {
    let now = 0;
    const reviewer = makeReviewer(({ spec }) => (spec.token === 'bad' ? { status: {} } : accepted));
    const authenticator = createTokenReviewAuthenticator({ reviewer, now: () => now });
    const asks = async (token: string) => {
      const before = reviewer.asked.length;
      await authenticator.authenticate(token, signal);
      return reviewer.asked.length - before;
    };
    const short = jwt(Date.now() / 1000 + 10);
    expect([await asks('good'), await asks('bad'), await asks(short)]).toEqual([1, 1, 1]);
    now = 4_999;
    expect([await asks('good'), await asks('bad'), await asks(short)]).toEqual([0, 0, 0]);
    now = 5_001;
    expect([await asks('good'), await asks('bad'), await asks(short)]).toEqual([0, 1, 0]);
    now = 10_001;
    expect(await asks(short)).toBe(1);
    now = 60_001;
    expect(await asks('good')).toBe(1);
  });

  test('requests with one token at the same time cost one review', async () => {
    const reviewer = makeReviewer(() => new Promise((resolve) => setTimeout(() => resolve(accepted), 20)));
    const authenticator = createTokenReviewAuthenticator({ reviewer });
    const names = await Promise.all(Array.from({ length: 20 }, () => authenticator.authenticate('abc', signal)));
    expect(new Set(names.map((identity) => identity?.name))).toEqual(new Set(['ann']));
    expect(reviewer.asked).toHaveLength(1);
  });

  test('a string that is no bearer token is refused without a review', async () => {
    const reviewer = makeReviewer(() => accepted);
    const authenticator = createTokenReviewAuthenticator({ reviewer });
    for (const token of ['a b', 'ä', '', 'a'.repeat(20_000)])
      expect(await authenticator.authenticate(token, signal)).toBeUndefined();
    expect(reviewer.asked).toHaveLength(0);
  });

  test('a failed review is 503, is not cached and is counted', async () => {
    let broken = true;
    const counted: string[] = [];
    const reviewer = makeReviewer(() => {
      if (broken) throw new Error('connection refused');
      return accepted;
    });
    const metrics = { access: ({ outcome }: { outcome: string }) => void counted.push(outcome) };
    const authenticator = createTokenReviewAuthenticator({ reviewer, metrics });
    await expect(authenticator.authenticate('abc', signal)).rejects.toMatchObject({ status: 503 });
    broken = false;
    expect((await authenticator.authenticate('abc', signal))?.name).toBe('ann');
    expect(counted).toEqual(['failed', 'allowed']);
  });
});

describe('authorisation by SubjectAccessReview', () => {
  const identity = { name: 'ann', uid: '1', groups: ['g'], extra: { k: ['v'] } };

  test('a review has our API group, our namespace, and the subresource as a member of its own', async () => {
    const reviewer = makeReviewer(() => ({ status: { allowed: true } }));
    const authorizer = createAccessReviewAuthorizer({ reviewer, namespace: 'ns' });
    const attributes = { resource: 'edgenodes/provisioning-key', verb: 'create', name: 'x' } as const;
    expect(await authorizer.allowed(identity, attributes, signal)).toBe(true);
    expect(reviewer.asked[0]?.spec).toEqual({
      user: 'ann',
      uid: '1',
      groups: ['g'],
      extra: { k: ['v'] },
      resourceAttributes: {
        group: 'skerry.dev',
        resource: 'edgenodes',
        subresource: 'provisioning-key',
        verb: 'create',
        namespace: 'ns',
        name: 'x',
      },
    });
  });

  test('a review is not reused for another user, group, verb or name', async () => {
    const reviewer = makeReviewer(({ spec }) => ({ status: { allowed: spec.user === 'ann' } }));
    const authorizer = createAccessReviewAuthorizer({ reviewer, namespace: 'ns' });
    const get = { resource: 'edgenodes', verb: 'get' } as const;
    expect(await authorizer.allowed(identity, get, signal)).toBe(true);
    expect(await authorizer.allowed({ ...identity, name: 'bob' }, get, signal)).toBe(false);
    for (const other of [
      { ...get, verb: 'list' as const },
      { ...get, name: 'a' },
      { ...get, name: 'b' },
    ])
      await authorizer.allowed(identity, other, signal);
    await authorizer.allowed({ ...identity, groups: [] }, get, signal);
    expect(reviewer.asked).toHaveLength(6);
    await authorizer.allowed(identity, get, signal);
    expect(reviewer.asked).toHaveLength(6);
  });

  test('a failed access review is 503', async () => {
    const reviewer = makeReviewer(() => Promise.reject(new Error('timeout')));
    const authorizer = createAccessReviewAuthorizer({ reviewer, namespace: 'ns' });
    await expect(authorizer.allowed(identity, { resource: 'a', verb: 'get' }, signal)).rejects.toMatchObject({
      status: 503,
    });
  });
});

describe('the review cache', () => {
  const options = { lifetimeMs: () => 1000, allows: (value: boolean) => value, now: () => 0 };

  test('refusals do not evict permissions, and both are bounded', async () => {
    const answers = createReviewCache({ ...options, capacity: 10 });
    await answers.ask('good', async () => true, signal);
    for (let i = 0; i < 100; i++) await answers.ask(`bad ${i}`, async () => false, signal);
    expect((await answers.ask('good', async () => false, signal)).cached).toBe(true);
    expect((await answers.ask('bad 0', async () => false, signal)).cached).toBe(false);
    expect((await answers.ask('bad 99', async () => false, signal)).cached).toBe(true);
  });

  test('reviews beyond the limit of concurrent ones are refused at once', async () => {
    const answers = createReviewCache({ ...options, capacity: 10, pending: 2 });
    const never = () => new Promise<boolean>(() => {});
    const { signal: asLong } = new AbortController();
    void answers.ask('a', never, asLong);
    void answers.ask('b', never, asLong);
    await expect(answers.ask('c', never, signal)).rejects.toMatchObject({ status: 503 });
  });

  test('a caller that disconnects does not cancel the review for others', async () => {
    const answers = createReviewCache({ ...options, capacity: 10 });
    let answer = (_: boolean) => {};
    const load = () => new Promise<boolean>((resolve) => (answer = resolve));
    const gone = new AbortController();
    const first = answers.ask('a', load, gone.signal);
    const second = answers.ask('a', load, signal);
    gone.abort(new Error('gone'));
    await expect(first).rejects.toThrow('gone');
    answer(true);
    expect(await second).toEqual({ value: true, cached: false });
  });
});
