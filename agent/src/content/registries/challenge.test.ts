import { expect, test } from 'vitest';
import { parseChallenge } from './challenge.ts';

const bearer = { scheme: 'bearer', realm: 'https://auth.example.com/token' };
const cases: Record<string, [string | undefined, object | undefined]> = {
  'a basic challenge with a realm is read': ['Basic realm="Registry"', { scheme: 'basic' }],
  'a basic challenge is read': ['BASIC', { scheme: 'basic' }],
  'a bearer challenge with realm, service and scope is read': [
    'Bearer realm="https://auth.example.com/token",service="registry.example.com",scope="repository:a/b:pull,push"',
    { ...bearer, service: 'registry.example.com', scope: 'repository:a/b:pull,push' },
  ],
  'a bearer challenge with spaces, plain values and a realm alone is read': [
    'bearer  realm = https://auth.example.com/token',
    bearer,
  ],
  'a bearer challenge goes before a basic one': [
    'Basic realm="x", Bearer realm="https://auth.example.com/token"',
    bearer,
  ],
  'escaped quotes in a value are read': [
    'Bearer realm="https://auth.example.com/token",service="a \\"b\\""',
    { ...bearer, service: 'a "b"' },
  ],
  'the first of two values is used': [
    'Bearer realm="https://auth.example.com/token",realm="https://evil.example.com/"',
    bearer,
  ],
  'a bearer challenge without a realm is ignored': ['Bearer service="x"', undefined],
  'another scheme is ignored': ['Negotiate', undefined],
  'an absent header is ignored': [undefined, undefined],
};
test.each(Object.entries(cases))('%s', (_name, [header, want]) => {
  const found = parseChallenge(header);
  expect(found && JSON.parse(JSON.stringify(found))).toEqual(want);
});
