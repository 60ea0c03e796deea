/** An architecture for which a program can be made, as images name it. */
export type PauseArchitecture = 'amd64' | 'arm64' | 'arm' | 'riscv64';

interface Target {
  bits: 32 | 64;
  /** ELF: e_machine and e_flags */
  machine: number;
  flags: number;
  /** a loop around a system call that waits for a signal: pause, or ppoll where the kernel has no pause */
  code: readonly number[];
}

const bytesOf = (...words: readonly number[]): number[] =>
  words.flatMap((word) => [word & 0xff, (word >>> 8) & 0xff, (word >>> 16) & 0xff, word >>> 24]);

const TARGETS: Readonly<Record<PauseArchitecture, Target>> = {
  // mov eax, 34 (pause); syscall; jmp back
  amd64: { bits: 64, machine: 62, flags: 0, code: [0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7] },
  // x0 to x3 = 0; x8 = 73 (ppoll); svc; b back
  arm64: {
    ...{ bits: 64, machine: 183, flags: 0 },
    code: bytesOf(0xd2800000, 0xd2800001, 0xd2800002, 0xd2800003, 0xd2800928, 0xd4000001, 0x17fffffa),
  },
  // mov r7, 29 (pause); svc; b back
  arm: { bits: 32, machine: 40, flags: 0x05000000, code: bytesOf(0xe3a0701d, 0xef000000, 0xeafffffc) },
  // a0 to a3 = 0; a7 = 73 (ppoll); ecall; j back
  riscv64: {
    ...{ bits: 64, machine: 243, flags: 0 },
    code: bytesOf(0x00000513, 0x00000593, 0x00000613, 0x00000693, 0x04900893, 0x00000073, 0xfe9ff06f),
  },
};

const halves = (...values: readonly number[]): number[] => values.flatMap((value) => [value & 0xff, value >>> 8]);

const EXECUTABLE = 2;
const LOAD = 1;
const READ_AND_EXECUTE = 5;
const BASE = 0x10000;
const PAGE = 0x1000;

/**
 * A static program for linux that does nothing until it is killed: it keeps the namespaces of a container. It is so small
 * that it is written here by its bytes, and no compiler is needed for four architectures.
 */
export function pauseProgram(architecture: PauseArchitecture): Buffer {
  const { bits, machine, flags, code } = TARGETS[architecture];
  const isWide = bits === 64;
  const [headerSize, segmentSize] = isWide ? [64, 56] : [52, 32];
  const start = headerSize + segmentSize;
  const address = (value: number) => bytesOf(value, ...(isWide ? [0] : []));
  const header = [
    ...[0x7f, 0x45, 0x4c, 0x46],
    // Class, little endian, version; the rest is zero.
    ...[isWide ? 2 : 1, 1, 1, ...Array<number>(9).fill(0)],
    ...halves(EXECUTABLE, machine),
    ...bytesOf(1),
    // Entry, table of segments, no table of sections.
    ...[BASE + start, headerSize, 0].flatMap(address),
    ...bytesOf(flags),
    ...halves(headerSize, segmentSize, 1, 0, 0, 0),
  ];
  const size = start + code.length;
  const segment = [
    ...bytesOf(LOAD, ...(isWide ? [READ_AND_EXECUTE] : [])),
    ...[0, BASE, BASE, size, size].flatMap(address),
    ...(isWide ? [] : bytesOf(READ_AND_EXECUTE)),
    ...address(PAGE),
  ];
  return Buffer.from([...header, ...segment, ...code]);
}
