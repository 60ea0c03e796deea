import { expect, test } from 'vitest';
import { parseJsonBody } from './body.ts';

test('a JSON body with a member twice is refused with its name', () => {
  expect(() => parseJsonBody('{"name":"a","data":{"pin":"4711","pin":"4712"}}', 64)).toThrow(
    'the body has the member "pin" twice',
  );
});
