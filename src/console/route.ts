/** A place in the console, as its address says it: `#/keys/abc?offset=100`. */
export interface Place {
  /** The parts of the path: a page, and what it is about. */
  parts: string[]
  query: URLSearchParams
}

/** Renders the address of a place. */
export function link(parts: string[], query: Record<string, string | number | undefined> = {}) {
  const search = new URLSearchParams(
    Object.entries(query).flatMap(([name, value]) =>
      value === undefined || value === '' ? [] : [[name, String(value)]],
    ),
  ).toString()
  return `#/${parts.map(encodeURIComponent).join('/')}${search && `?${search}`}`
}

/** Goes to a place. With `replace`, the way back does not lead through the one before. */
export function go(to: string, replace = false): void {
  if (replace) location.replace(to)
  else location.hash = to
}

/** Creates what tells whether a text has all words that the query looks for. */
export function matchWords({ query }: Place): (text: string) => boolean {
  const words = (query.get('find') ?? '').toLowerCase().split(' ').filter(Boolean)
  return text => words.every(word => text.toLowerCase().includes(word))
}

/** Changes parts of the query of a place, which is then the address. */
export const setQuery = (
  { parts, query }: Place,
  change: Record<string, string | number | undefined>,
): void => go(link(parts, { ...Object.fromEntries(query), ...change }), true)
