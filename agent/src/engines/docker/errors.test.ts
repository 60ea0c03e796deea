import { expect, test } from 'vitest';
import { errorOf } from './errors.ts';

test.each([
  [
    'failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/nope": stat /nope: no such file or directory: unknown',
    'exec: "/nope": stat /nope: no such file or directory',
  ],
  [
    'OCI runtime create failed: container_linux.go:380: starting container process caused: exec: "/nope": permission denied: unknown',
    'OCI runtime create failed: container_linux.go:380: starting container process caused: exec: "/nope": permission denied: unknown',
  ],
])(
  'the words %j of an engine about a program that cannot be started are shown without the layers around them',
  (message, shown) => {
    expect(errorOf('POST', '/containers/x/start', 400, JSON.stringify({ message })).message).toBe(shown);
  },
);

test.each([
  [400, 'Minimum memory limit allowed is 6MB', 'LimitRefused'],
  [400, 'Minimum memoryswap limit should be larger than memory limit, see usage', 'LimitRefused'],
  [400, 'Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available', 'LimitRefused'],
  [400, 'Requested CPUs are not available - requested 9, available: 0-1', 'LimitRefused'],
  [
    500,
    'failed to create task: runc create failed: error setting rlimit type 7: operation not permitted',
    'LimitRefused',
  ],
  [500, 'crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted: OCI permission denied', 'LimitRefused'],
  [400, 'failed to create task: exec: "/nothing": stat /nothing: no such file or directory', 'Invalid'],
  [400, 'no command specified', 'Invalid'],
  [404, 'No such image: example/app:1', 'ImageMissing'],
  [500, 'Bind for 0.0.0.0:80 failed: port is already allocated', 'PortTaken'],
  [500, 'something else', 'Failed'],
])('the answer %i of the engine, %j, is %s', (status, message, code) => {
  expect(errorOf('POST', '/containers/create', status, JSON.stringify({ message }))).toMatchObject({ code, message });
});
