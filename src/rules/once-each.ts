/** A function that computes the value of each object once, and keeps it as long as the object. Objects must not change: stores have such. */
export function onceEach<K extends object, V>(compute: (object: K) => V): (object: K) => V {
  const known = new WeakMap<K, V>();
  return (object) => {
    const value = known.get(object) ?? compute(object);
    known.set(object, value);
    return value;
  };
}
