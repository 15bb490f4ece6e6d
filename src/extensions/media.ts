import type { Cancellation } from '../base/cancellation.ts'
import { checkDataUrl, isDataUrl } from '../base/data-url.ts'
import { GatewayError, invalid } from '../base/errors.ts'
import type { MediaReference } from '../engine/kinds/media.ts'
import type { CallTarget } from '../engine/run.ts'
import type { Kind, Work } from '../language/work.ts'
import { fetchMedia } from '../network/media.ts'
import { refusePrivateHost } from '../network/untrusted-url.ts'
import { checkUnreadOrigins, listUnreadOrigins, type UnreadOrigin } from './media/unread-urls.ts'
import type { ExtensionWorld } from './world.ts'

/** What may be fetched for one call: how many files, and how many bytes. */
const MAX_URLS = 32
const LARGEST_OF_ONE = 20 * 1024 * 1024
const LARGEST_OF_ALL = 64 * 1024 * 1024

/**
 * Returns the call with every URL that its provider does not fetch itself replaced by a data URL. A
 * self-hosted provider fetches none: it may stand in a network that callers cannot reach.
 * Each is fetched once, however many endpoints are tried: `media` holds what was fetched. Returns
 * the call itself, and no promise, if there is nothing to fetch, as in most. Throws 400 for media
 * that cannot be fetched, and for those at an address of a private network, also if a provider
 * fetches them.
 */
export function inlineMedia<K extends Kind>(
  world: ExtensionWorld,
  call: Work[K]['call'],
  { kind, takesUrls, ownSchemes = [], fetchesUrls, media, cancellation }: CallTarget<K>,
): Work[K]['call'] | Promise<Work[K]['call']> {
  const { listMedia, readRichContents } = kind.understanding
  const all = listMedia(call)
  for (const { url, field } of all) {
    if (isDataUrl(url)) checkDataUrl(url, field)
    else refusePrivateHost(world, url, field)
  }
  if (all.length === 0 && fetchesUrls) return call
  const unread = fetchesUrls ? [] : listUnreadOrigins(readRichContents(call), all, ownSchemes)
  const references = all.filter(
    reference =>
      (!fetchesUrls || !takesUrls.includes(reference.kind)) && /^https?:/i.test(reference.url),
  )
  if (references.length === 0 && unread.length === 0) return call
  return fetchReferences(world, call, { kind, media, cancellation }, references, unread)
}

// A function of its own, so that calls without media make no closures.
function fetchReferences<K extends Kind>(
  world: ExtensionWorld,
  call: Work[K]['call'],
  { kind, media, cancellation }: Pick<CallTarget<K>, 'kind' | 'media' | 'cancellation'>,
  references: MediaReference[],
  unread: UnreadOrigin[],
): Promise<Work[K]['call']> {
  return cancellation
    .awaitUnlessCancelled(checkUnreadOrigins(world, unread))
    .then(() => fetchMissing(world, media, cancellation, references))
    .then(urls => kind.understanding.replaceUrls(call, urls))
}

/**
 * Fetches what is not in `media` yet, as data URLs by their URL, and returns `media`. Throws 400
 * for media that cannot be fetched, and for too many.
 */
export async function fetchMissing(
  world: ExtensionWorld,
  media: Map<string, string>,
  cancellation: Cancellation,
  references: MediaReference[],
): Promise<Map<string, string>> {
  const missing = [
    ...new Map(references.map(reference => [reference.url, reference])).values(),
  ].filter(reference => !media.has(reference.url))
  if (missing.length > MAX_URLS)
    throw invalid(
      `The request refers to more than ${MAX_URLS} URLs that have to be fetched for this provider`,
    )
  const maxBytes = Math.min(
    LARGEST_OF_ONE,
    Math.floor(LARGEST_OF_ALL / Math.max(missing.length, 1)),
  )
  const branches = cancellation.createBranches(missing.length)
  const fetching = missing.map(async ({ kind, url, field }, i) => {
    const { media_type, data } = await fetchMedia(world, url, {
      kind,
      ...(field === undefined ? {} : { field }),
      maxBytes,
      ...(branches[i] ? { cancellation: branches[i] } : {}),
    })
    media.set(url, `data:${media_type};base64,${data}`)
  })
  try {
    await Promise.all(fetching)
  } finally {
    for (const branch of branches) branch.cancel(DOWNLOADS_OVER)
  }
  return media
}

const DOWNLOADS_OVER = new GatewayError('unmapped', 'The downloads are over')
