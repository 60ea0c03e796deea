interface Earlier {
  title: string;
  about: string;
  /** by figure */
  figures: Readonly<Record<string, number>>;
}

/** Figures of an earlier version, for each change that was about them. */
export const EARLIER: readonly Earlier[] = [
  {
    title: 'What an edit costs, before and after',
    about:
      'Before: the version of 2026-11-21 20:30, whose registry reconciler looked at every entry of every application with each edit, and which wrote what silence changes as fast as it could. Both runs had the two cores to themselves. A fleet that returns takes longer until all is written, because these writes yield to polls.',
    figures: {
      'growth.create@100': 30.1,
      'growth.createCpu@100': 190,
      'growth.createController@100': 49.6,
      'growth.edit@100': 43.4,
      'growth.editCpu@100': 179,
      'growth.editController@100': 45.5,
      'growth.list@100': 30.3,
      'growth.create@1000': 89.9,
      'growth.createCpu@1000': 281,
      'growth.createController@1000': 160,
      'growth.edit@1000': 109,
      'growth.editCpu@1000': 257,
      'growth.editController@1000': 99.7,
      'growth.list@1000': 259,
      'growth.silent': 74.9,
      'growth.silentP99': 21.7,
      'growth.silentSeconds': 61.9,
      'growth.back': 73.5,
      'growth.backP99': 360,
      'growth.backSeconds': 6.57,
    },
  },
  {
    title: 'What a write of a status costs, before and after',
    about:
      'Before: the version of 2026-11-26 14:58. Both runs had a busy machine, which makes CPU times worse, but not allocations.',
    figures: {
      'status.cpu': 13.23,
      'status.free': 3.56,
      'status.allocated': 4767,
      'status.allocatedFree': 815,
      'status.ratio@applications': 3.72,
      'status.ratio@nodes': 2.46,
      'status.back': 25.7,
      'status.backWrites': 2.32,
    },
  },
];
