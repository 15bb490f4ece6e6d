import type { CacheControl } from '../language/message.ts'

/** The marker of a cached prefix, where there is one. */
export const marker = (cache_control: CacheControl | null | undefined) => (cache_control ? { cache_control } : {})

/** What a thing holds besides its known fields; undefined where that is nothing, as it mostly is. */
export function unknownOf(thing: object, known: Set<string>): Record<string, unknown> | undefined {
  let extra: Record<string, unknown> | undefined
  for (const name in thing) {
    if (known.has(name)) continue
    extra ??= {}
    extra[name] = thing[name as keyof typeof thing]
  }
  return extra
}

/** The fields that nobody knows, where there are some. */
export const some = (extra: Record<string, unknown>) => {
  for (const _ in extra) return { extra }
  return {}
}
