/**
 * The worst that whoever has stolen the key of a node gains by a route, and what ends or undoes it besides a new provisioning, which
 * ends every use of the key. A route that reads or changes anything of another node, or that outlives the key, does not belong here.
 */
export interface Theft {
  gains: string;
  /** absent: ends with the key, and leaves nothing behind */
  undone?: string;
}

/** Classes of routes by what a thief gains; docs/spec/node-key.md is made from them and routes/table.ts. */
export const THEFTS = {
  provisioning: {
    gains: 'Nothing: a provisioning key is needed.',
  },
  leaving: {
    gains: 'The machine loses its identity. It runs on what it has and reports nothing. The EdgeNode stays.',
    undone: 'Provision the machine again.',
  },
  goodbye: {
    gains:
      'As `POST /deprovision`. Of a node that a person deletes it ends the wait for the machine, which then keeps its containers.',
    undone: 'Provision the machine again, or run `skerry-agent deprovision` on it.',
  },
  polling: {
    gains:
      'Knows when something changes. Four long polls and 20 requests a second take these from the machine, which then learns of changes late.',
  },
  acknowledging: {
    gains: 'A reboot, a pruning or a change of version counts as carried out although the machine did nothing.',
    undone: 'Order the action again.',
  },
  workload: {
    gains:
      'Reads what this node is to run, with the variables from its Secrets and the names and rules of its service accounts.',
    undone: 'Change the Secrets that its microservices use.',
  },
  registries: {
    gains: 'Reads the user names and passwords of the registries that this node pulls from.',
    undone: 'Change these passwords.',
  },
  content: {
    gains: 'Reads the Secrets and ConfigMaps that are mounted on this node.',
    undone: 'Change the Secrets that are mounted.',
  },
  systemFiles: {
    gains:
      'Reads the files of the system on this node: private keys and certificates that it has in its own name alone, and the credentials of its microservices and its server for the message bus, with which it reads and sends messages of their applications.',
    undone:
      'Delete the node, and create it again under another name; turn busConfig.busAccess of its microservices off and on again.',
  },
  settings: {
    gains: 'Reads settings, models, knowledge and runtimes of this node: names and addresses, no credentials.',
  },
  sessions: {
    gains:
      'Takes part in terminals and logs of this node in place of the machine: reads what is typed, and shows what it likes.',
    undone: 'Change passwords that were typed in terminals of this node.',
  },
  tunnel: {
    gains:
      "While the node has an open tunnel: the key or password with which all machines log in at the ssh server. What that allows is the server's to say. Set up as docs/tunnel.md has it: to open free ports of its loopback address, also a port that another node's tunnel has had.",
    undone: 'Change the key in the Secret of the tunnels and at the ssh server.',
  },
  registering: {
    gains:
      'Of a node of the system: the machine runs an image that the thief chooses as the controller, with the privileges that the thief asks for and the policy of the machine allows. It names no Secret, ConfigMap, address or credential of others, and nothing of another node; the registry and the runtime class that it names are then changed by admin and sre alone. Five at once, then one in half a minute; each is an event of the audit log.',
    undone: 'Delete the node, and create it again: the controller ends with it.',
  },
  version: {
    gains:
      'While a change of version is due, and 20 minutes after a third-party agent acknowledged it: a provisioning key, and with it the node with another key. Each read ends the key of the read before it, that of the machine too. Never in place of a key that a person asked for. Each answer is an event of the audit log.',
    undone: 'A provisioning key that a person asks for takes the node back.',
  },
  reporting: {
    gains:
      'The status of this node and of its microservices says anything: Ready, addresses, ports, messages. Applications that move away from the node start elsewhere early. 15 changes of statuses at once, then one in two seconds.',
    undone: 'The next report of the machine replaces it.',
  },
  nothing: {
    gains: 'Nothing: it is the same for everyone, is dropped, or is refused.',
  },
} as const satisfies Record<string, Theft>;
