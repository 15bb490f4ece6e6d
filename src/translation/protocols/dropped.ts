import type { Endpoint } from '../../resources/models/catalog.ts'

/** Lists the parameters among these that a server refuses by the quirks of its provider. */
export const listDropped = (parameters: object, { provider: { quirks } }: Endpoint): string[] =>
  quirks.dropped.filter(name => name in parameters)

/** Returns the parameters without those of these names; the parameters themselves without any. */
export function omitNamed<P extends object>(parameters: P, names: readonly string[]): P {
  if (!names.some(name => name in parameters)) return parameters
  const kept = Object.entries(parameters).filter(([name]) => !names.includes(name))
  return Object.fromEntries(kept) as P
}
