import { isIP } from 'node:net';

/** Hosts of one certificate; programs that read it have bounds of their own. */
const MOST_HOSTS = 100;
const LONGEST_NAME = 253;

/** The hosts of a comma-separated text, each once, in the order of the text. */
export const hostsOf = (text: string): readonly string[] => [
  ...new Set(
    text
      .split(',')
      .map((host) => host.trim())
      .filter((host) => host !== ''),
  ),
];

export const isAddress = (host: string): boolean => isIP(host) !== 0;

/** Why a text is no list of hosts. */
export function hostsProblem(text: string): string | undefined {
  const hosts = hostsOf(text);
  if (hosts.length === 0) return 'hosts: must have at least one host name or IP address';
  if (hosts.length > MOST_HOSTS) return `hosts: must have at most ${MOST_HOSTS} hosts, has ${hosts.length}`;
  const wrong = hosts.find((host) => !isHost(host));
  return wrong === undefined ? undefined : `hosts: "${wrong}" is neither a host name nor an IP address`;
}

/** A name whose last label has digits alone is an address that is wrong: programs read it as one. */
const ENDS_IN_NUMBER = /(^|\.)[0-9]+$/;

const isHost = (host: string) =>
  isAddress(host) || (!host.includes(':') && !ENDS_IN_NUMBER.test(host) && host.length <= LONGEST_NAME);
