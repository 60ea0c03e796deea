import { expect, test } from 'vitest';
import { hostsOf, hostsProblem } from './hosts.ts';

test('hosts are what stands between the commas, each once', () => {
  expect(hostsOf(' a.example, 10.0.0.5,a.example,, 2001:db8::5 ')).toEqual(['a.example', '10.0.0.5', '2001:db8::5']);
});

test.each([
  ['a.example', undefined],
  ['*.a.example,localhost,_dns.a', undefined],
  ['::1,10.0.0.5', undefined],
  [Array.from({ length: 100 }, (_, i) => `h${i}`).join(','), undefined],
  ['', 'hosts: must have at least one host name or IP address'],
  [',,', 'hosts: must have at least one host name or IP address'],
  ['::::', 'hosts: "::::" is neither a host name nor an IP address'],
  ['10.0.0.5:80', 'hosts: "10.0.0.5:80" is neither a host name nor an IP address'],
  [`${'a.'.repeat(127)}ab`, expect.stringContaining('is neither a host name')],
  [Array.from({ length: 101 }, (_, i) => `h${i}`).join(','), 'hosts: must have at most 100 hosts, has 101'],
])('hosts %j are judged', (text, problem) => {
  expect(hostsProblem(text)).toEqual(problem);
});
