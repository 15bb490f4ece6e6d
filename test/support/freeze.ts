/** Freezes a value and everything in it, so that changing it throws. */
export function freezeDeep<T extends object>(value: T): T {
  for (const inner of Object.values(value))
    if (typeof inner === 'object' && inner !== null && !Object.isFrozen(inner)) freezeDeep(inner)
  return Object.freeze(value)
}
