import {
  isObject,
  type Json,
  omitUndefined,
  readObject,
  readObjects,
  readString,
} from '../../../base/json.ts'

/** Anthropic's types of locations with Converse's names, and the members of each, theirs first. */
const LOCATIONS: [type: string, name: string, members: [string, string][]][] = [
  ['char_location', 'documentChar', nameMembers('document', 'char_index')],
  ['page_location', 'documentPage', nameMembers('document', 'page_number')],
  ['content_block_location', 'documentChunk', nameMembers('document', 'block_index')],
  ['search_result_location', 'searchResultLocation', nameMembers('searchResult', 'block_index')],
]

function nameMembers(source: 'document' | 'searchResult', unit: string): [string, string][] {
  const index = source === 'document' ? 'document_index' : 'search_result_index'
  return [
    [index, `${source}Index`],
    [`start_${unit}`, 'start'],
    [`end_${unit}`, 'end'],
  ]
}

const SEARCH = 'web_search_result_location'

/** Converts a citation of the Messages API into one of Converse. */
export function toConverseCitation(citation: Json): Json {
  const { type, cited_text, document_title, title, source, url } = citation
  return omitUndefined({
    title: readString(document_title) ?? readString(title) ?? undefined,
    source: readString(source) ?? undefined,
    sourceContent: typeof cited_text === 'string' ? [{ text: cited_text }] : undefined,
    location: type === SEARCH ? { web: toWeb(url) } : toLocation(citation),
  })
}

const toWeb = (url: unknown): Json => {
  const domain = URL.parse(String(url))?.hostname
  return domain ? { url, domain } : { url }
}

function toLocation(citation: Json): Json | undefined {
  const [, name, members] = LOCATIONS.find(([type]) => type === citation.type) ?? []
  return name && members
    ? {
        [name]: omitUndefined(
          Object.fromEntries(members.map(([ours, its]) => [its, citation[ours]])),
        ),
      }
    : undefined
}

/**
 * Converts a citation that Converse's client says again. One of the web has lost its proof, which
 * the Messages API has as an empty index. Null where its location has no form there.
 */
export function toMessagesCitation(citation: Json): Json | null {
  const location = readObject(citation, 'location')
  const cited_text = joinTexts(citation.sourceContent)
  const title = readString(citation.title)
  if (isObject(location.web))
    return { type: SEARCH, cited_text, title, url: location.web.url, encrypted_index: '' }
  const [type, name, members] = LOCATIONS.find(([, its]) => isObject(location[its])) ?? []
  if (!type || !name || !members) return null
  const place = readObject(location, name)
  const of =
    name === 'searchResultLocation' ? { source: citation.source, title } : { document_title: title }
  return {
    type,
    cited_text,
    ...of,
    ...omitUndefined(Object.fromEntries(members.map(([ours, its]) => [ours, place[its]]))),
  }
}

/** Joins the texts of pieces. */
export const joinTexts = (content: unknown): string =>
  readObjects(content)
    .map(({ text }) => readString(text) ?? '')
    .join('')
