import { writeFileSync } from 'node:fs';
import { customResource } from '../../../src/api/resources.ts';
import { type BusUser, busUserResource } from '../../../src/api/v3/bus-user.ts';
import { v3Name } from '../../../src/rules/names.ts';
import type { Command, CommandContext } from '../context/command.ts';
import { CONTROLLER_DETAILS, CONTROLLER_FLAGS, controllerOf } from '../context/controller.ts';
import { CommandError } from '../context/errors.ts';

const BUS_USERS = customResource<BusUser>(busUserResource);

export const busCreds: Command = {
  name: 'bus creds',
  usage: 'ACCOUNT USER',
  about: 'Print the credentials file of a user of the message bus',
  details: [
    'The account has the name of its application. The file has the token and the private key of the user: whoever has it is the user until it is deleted. Each read is in the audit log.',
    ...CONTROLLER_DETAILS,
  ],
  examples: ['bus creds shop sensor --file sensor.creds', 'bus creds shop sensor > sensor.creds'],
  flags: {
    file: { short: 'f', value: 'FILE', about: 'write it there, readable for you alone; the file must not exist' },
    ...CONTROLLER_FLAGS,
  },
  words: { min: 2, max: 2 },
  complete: async (context, [account]) =>
    (await usersOf(context)).map((user) => (account === undefined ? user.spec.account : v3Name(user))),
  async run(context) {
    const { words, flags, signal, out, raw } = context;
    const [account = '', user = ''] = words.map(encodeURIComponent);
    const controller = await controllerOf(context);
    const { credsBase64 } = (await controller.read(`/bus/accounts/${account}/users/${user}/creds`, signal)) as {
      credsBase64?: unknown;
    };
    if (typeof credsBase64 !== 'string') throw new CommandError('the controller answered without credentials');
    const credentials = Buffer.from(credsBase64, 'base64').toString();
    const { file } = flags;
    if (typeof file !== 'string') return raw(credentials);
    try {
      writeFileSync(file, credentials, { mode: 0o600, flag: 'wx' });
    } catch (error) {
      throw new CommandError(`${file}: ${(error as Error).message}`);
    }
    out(`${file} has the credentials of ${words.join('/')}\n`);
  },
};

const usersOf = async ({ cluster: { client, namespace }, signal }: CommandContext) =>
  (await client.list(BUS_USERS, { namespace, limit: 0, signal })).items;
