/** Figures of an earlier version, by figure, where a change was about them. */
export const EARLIER = {
  title: 'What an edit costs, before and after',
  about:
    'Before: the version of 2026-11-21 20:30, whose registry reconciler looked at every entry of every application with each edit. Other programs had the two cores as well in both runs, in the first more of them (load 16 at its start, in the second 10 falling to 3): compare CPU rather than times, and conclude nothing from small differences.',
  figures: {
    'growth.create@100': 124,
    'growth.createCpu@100': 191,
    'growth.createController@100': 49.4,
    'growth.create@1000': 593,
    'growth.createCpu@1000': 324,
    'growth.createController@1000': 177,
    'growth.list@1000': 2_462,
  },
} as const;
