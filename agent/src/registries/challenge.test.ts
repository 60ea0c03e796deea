import { expect, test } from 'vitest';
import { parseChallenge } from './challenge.ts';

const bearer = { scheme: 'bearer', realm: 'https://auth.example.com/token' };
const cases: Record<string, [string | undefined, object | undefined]> = {
  basic: ['Basic realm="Registry"', { scheme: 'basic' }],
  'basic alone': ['BASIC', { scheme: 'basic' }],
  bearer: [
    'Bearer realm="https://auth.example.com/token",service="registry.example.com",scope="repository:a/b:pull,push"',
    { ...bearer, service: 'registry.example.com', scope: 'repository:a/b:pull,push' },
  ],
  'bearer with spaces, plain values and a realm alone': ['bearer  realm = https://auth.example.com/token', bearer],
  'bearer before basic, whichever comes first': [
    'Basic realm="x", Bearer realm="https://auth.example.com/token"',
    bearer,
  ],
  'escaped quotes': [
    'Bearer realm="https://auth.example.com/token",service="a \\"b\\""',
    { ...bearer, service: 'a "b"' },
  ],
  'the first of two values': [
    'Bearer realm="https://auth.example.com/token",realm="https://evil.example.com/"',
    bearer,
  ],
  'bearer without a realm': ['Bearer service="x"', undefined],
  'another scheme': ['Negotiate', undefined],
  nothing: [undefined, undefined],
};
test.each(Object.entries(cases))('%s', (_name, [header, want]) => {
  const found = parseChallenge(header);
  expect(found && JSON.parse(JSON.stringify(found))).toEqual(want);
});
