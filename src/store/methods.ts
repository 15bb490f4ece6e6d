/** A method of a store: it returns a promise. */
type Method = (...parameters: unknown[]) => Promise<unknown>

/** Replaces every method of a noun of a store by what `wrap` makes of it. */
export function replaceMethods(noun: object, wrap: (name: string, method: Method) => Method): void {
  const methods = noun as Record<string, unknown>
  for (const name of listMethods(methods))
    methods[name] = wrap(name, (methods[name] as Method).bind(noun))
}

/** Lists the names of methods, also of those that a class declares. */
function listMethods(methods: Record<string, unknown>): string[] {
  const prototype = Object.getPrototypeOf(methods)
  const inherited = prototype === Object.prototype ? [] : Object.getOwnPropertyNames(prototype)
  return [...new Set([...Object.keys(methods), ...inherited])].filter(
    name => name !== 'constructor' && typeof methods[name] === 'function',
  )
}
