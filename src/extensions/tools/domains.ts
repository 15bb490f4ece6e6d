import { invalid } from '../../base/errors.ts'

/** Which sites a tool may use. At most one of the lists has any. */
export interface DomainLists {
  allowed: string[]
  excluded: string[]
}

const MOST_DOMAINS = 100
const LONGEST_DOMAIN = 300

/**
 * Reads a list of domains, each a host with its subdomains, perhaps with a path: `example.com`,
 * `*.example.com`, `example.com/docs`. Returns them in one form. Throws 400 naming the field for
 * anything else, and for an empty list.
 */
function readDomains(value: unknown, field: string): string[] {
  if (value == null) return []
  if (!Array.isArray(value) || value.length === 0 || value.length > MOST_DOMAINS)
    throw invalid(`${field}: expected 1 to ${MOST_DOMAINS} domains`, field)
  return [...new Set(value.map((domain, i) => readDomain(domain, `${field}.${i}`)))]
}

/** Reads two lists, of which one may be given. Throws 400 naming the second if both are. */
export function readDomainLists(
  [allowed, allowedField]: [value: unknown, field: string],
  [excluded, excludedField]: [value: unknown, field: string],
): DomainLists {
  const lists = {
    allowed: readDomains(allowed, allowedField),
    excluded: readDomains(excluded, excludedField),
  }
  if (lists.allowed.length > 0 && lists.excluded.length > 0)
    throw invalid(
      `${excludedField}: expected none beside ${allowedField.split('.').at(-1)}`,
      excludedField,
    )
  return lists
}

function readDomain(value: unknown, field: string): string {
  const refusal = invalid(`${field}: expected a domain, such as example.com`, field)
  if (typeof value !== 'string' || value.length > LONGEST_DOMAIN) throw refusal
  const [host = '', ...path] = value.replace(/^(\*?\.)/, '').split('/')
  // The URL parser writes every host in one way: in lower case, and in ASCII.
  const url = /[\s:@?#%\\]/.test(host) ? null : URL.parse(`http://${host}/`)
  if (!url || !/^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/.test(url.hostname) || url.host !== url.hostname)
    throw refusal
  const rest = path.join('/').replace(/\/+$/, '')
  const parsed = URL.parse(`http://${url.hostname}/${rest}`)
  if (parsed?.search !== '' || parsed.hash !== '' || parsed.username !== '') throw refusal
  return rest === '' ? url.hostname : url.hostname + parsed.pathname
}

/** Returns whether the lists allow a URL. One that cannot be read is not allowed. */
export function allowsUrl({ allowed, excluded }: DomainLists, address: string): boolean {
  const url = URL.parse(address)
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return false
  if (allowed.length > 0) return allowed.some(domain => isWithin(url, domain))
  return !excluded.some(domain => isWithin(url, domain))
}

function isWithin({ hostname, pathname }: URL, domain: string): boolean {
  // A host with a dot at its end is the same host.
  const host = hostname.replace(/\.$/, '')
  const slash = domain.indexOf('/')
  const wanted = slash === -1 ? domain : domain.slice(0, slash)
  if (host !== wanted && !host.endsWith(`.${wanted}`)) return false
  const path = slash === -1 ? '' : domain.slice(slash)
  return path === '' || pathname === path || pathname.startsWith(`${path}/`)
}
