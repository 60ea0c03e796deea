import { expect, test } from 'vitest';
import { parameterNames, pathTable, routeTable, spellingsOf } from './path-pattern.ts';

const find = pathTable(
  [
    ...['/a', '/a/{id}', '/a/own', '/a/{id}/log', '/a/own/log/all', '/a:prune', '/a:*', '/b*', '/bc*', '/{x}/log'],
    ...['/a/{id}:open', '/a/{id}:open/now'],
  ].map((pattern) => [pattern, pattern] as const),
);
const found = (path: string) => [...find(path)].map(({ value }) => value);

const PATHS: Record<string, string[]> = {
  '/a': ['/a'],
  '/a/': [],
  '/a/1': ['/a/{id}'],
  '/a/own': ['/a/own', '/a/{id}'],
  '/a/own/log': ['/a/{id}/log'],
  '/a/log': ['/a/{id}', '/{x}/log'],
  '/a:prune': ['/a:prune', '/a:*'],
  '/a:pull/x': ['/a:*'],
  '/a/1:open': ['/a/{id}:open', '/a/{id}'],
  '/a/1:2:open/now': ['/a/{id}:open/now'],
  '/a/:open': ['/a/{id}'],
  '/a/1:shut': ['/a/{id}'],
  '/b': ['/b*'],
  '/b/c/d': ['/b*'],
  '/bcd': ['/bc*', '/b*'],
  '//log': [],
  a: [],
  '': [],
};
for (const [path, patterns] of Object.entries(PATHS))
  test(`the path "${path}" has the rows ${patterns.join(', ') || 'of no pattern'}, the most specific first`, () =>
    expect(found(path)).toEqual(patterns));

test('parameters are decoded, each under its name', () => {
  const [match] = [...pathTable([['/{kind}/{name}/x', 1]])('/a%2Fb/c%20d/x')];
  expect(match).toEqual({ value: 1, parameters: { kind: 'a/b', name: 'c d' } });
});

test('a parameter ends before its verb', () => {
  const [match] = [...pathTable([['/{kind}/{name}:open', 1]])('/a/b%3Ac:open')];
  expect(match?.parameters).toEqual({ kind: 'a', name: 'b:c' });
});

test('a parameter that is not valid percent-encoding is a URIError', () => {
  expect(() => [...find('/a/%zz')]).toThrow(URIError);
});

test('two patterns that match the same paths are refused', () => {
  for (const pair of [
    ['/a/{id}', '/a/{name}'],
    ['/a*', '/a*'],
    ['/a/{id}:x', '/a/{name}:x'],
  ])
    expect(() => pathTable(pair.map((pattern) => [pattern, 1] as const))).toThrow(/two rows have the pattern \/a/);
});

test('a route with a parameter serves a method that the literal path lacks', () => {
  const routes = [
    { method: 'POST', path: '/a/own' },
    { method: 'GET', path: '/a/{id}' },
  ];
  const table = routeTable(routes.map((route) => [route.path, route] as const));
  expect(table.find('GET', '/a/own')).toEqual({ value: routes[1], parameters: { id: 'own' } });
  expect(table.find('PUT', '/a/own')).toBeUndefined();
  expect(table.methodsOf('/a/own')).toEqual(['GET', 'POST']);
  expect(table.methodsOf('/b')).toEqual([]);
});

test('the names of the parameters are those in braces', () => {
  expect(parameterNames('/a/{id}/b/{name}')).toEqual(['id', 'name']);
});

test('other spellings replace whole segments at the beginning of a path', () => {
  const table = [['/v1/ms', '/v1/microservices']] as const;
  expect(spellingsOf('/v1/ms/{id}', table)).toEqual(['/v1/ms/{id}', '/v1/microservices/{id}']);
  expect(spellingsOf('/v1/msx', table)).toEqual(['/v1/msx']);
});
