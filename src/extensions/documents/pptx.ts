import type { TextSink } from './text-sink.ts'
import { readAttribute, readXml } from './xml.ts'
import { readZip } from './zip.ts'

const SLIDE = /^ppt\/slides\/slide(\d{1,6})\.xml$/
const NOTES = /^ppt\/notesSlides\/notesSlide\d{1,6}\.xml$/
const LINKS = /^ppt\/slides\/_rels\/slide\d{1,6}\.xml\.rels$/
const ORDER = ['ppt/presentation.xml', 'ppt/_rels/presentation.xml.rels']

/** Tells whether an archive with this file is a PPTX. */
export const isPptxPart = (name: string): boolean => name === 'ppt/presentation.xml'

/** Reads the text of a PPTX: slide by slide in the order of the presentation, with its notes. */
export function readPptx(bytes: Uint8Array, sink: TextSink): void {
  const parts = readZip(
    bytes,
    name => SLIDE.test(name) || NOTES.test(name) || LINKS.test(name) || ORDER.includes(name),
  )
  for (const [i, slide] of listSlides(parts).entries()) {
    const part = parts.get(slide)
    if (!part) continue
    if (!sink.add(`\n## Slide ${i + 1}\n`) || !addParagraphs(part, sink)) return
    const notes = parts.get(findNotes(parts, slide) ?? '')
    if (notes && !(sink.add('\nNotes: ') && addParagraphs(notes, sink))) return
  }
}

/** Lists the slides in the order of the presentation, or by their numbers if it names none. */
function listSlides(parts: Map<string, Uint8Array>): string[] {
  const targets = readLinks(parts.get('ppt/_rels/presentation.xml.rels'))
  const ordered: string[] = []
  for (const event of readPart(parts.get('ppt/presentation.xml')))
    if (event.type === 'open' && event.name === 'sldId') {
      const target = targets.get(readAttribute(event.attributes, 'r:id') ?? '')
      if (target) ordered.push(`ppt/${target.target.replace(/^\/ppt\//, '')}`)
    }
  const known = ordered.filter(name => parts.has(name))
  return known.length > 0 ? known : listByNumber(parts)
}

const listByNumber = (parts: Map<string, Uint8Array>): string[] =>
  [...parts.keys()]
    .flatMap(name => {
      const number = SLIDE.exec(name)?.[1]
      return number === undefined ? [] : [{ name, number: Number(number) }]
    })
    .sort((a, b) => a.number - b.number)
    .map(({ name }) => name)

function findNotes(parts: Map<string, Uint8Array>, slide: string): string | undefined {
  const links = readLinks(parts.get(slide.replace('slides/', 'slides/_rels/').concat('.rels')))
  const notes = [...links.values()].find(({ type }) => type.endsWith('/notesSlide'))
  return notes && `ppt/${notes.target.replace(/^(?:\.\.\/|\/ppt\/)/, '')}`
}

/** A link from one part of the archive to another. */
interface Link {
  type: string
  target: string
}

/** Reads the links of a part, by their ids. */
export function readLinks(part: Uint8Array | undefined): Map<string, Link> {
  const links = new Map<string, Link>()
  for (const event of readPart(part)) {
    if (event.type !== 'open' || event.name !== 'Relationship') continue
    const [id, type, target] = ['Id', 'Type', 'Target'].map(name =>
      readAttribute(event.attributes, name),
    )
    if (id && target) links.set(id, { type: type ?? '', target })
  }
  return links
}

const readPart = (part: Uint8Array | undefined) => (part ? readXml(part) : [])

/**
 * Adds a part's text: paragraphs are lines, and the cells of a row are on one. Fields, such as the
 * number of a slide, are left out.
 */
function addParagraphs(part: Uint8Array, sink: TextSink): boolean {
  let isText = false
  let isField = false
  let cells = 0
  for (const event of readXml(part)) {
    if (event.type === 'text') {
      if (isText && !isField && !sink.add(event.text)) return false
      continue
    }
    if (event.name === 'fld') isField = event.type === 'open' && !event.isEmpty
    isText = event.type === 'open' && event.name === 't' && !event.isEmpty
    if (event.name === 'tc') cells += event.type === 'open' ? 1 : -1
    const added = event.type === 'close' ? renderEnd(event.name, cells) : renderSign(event.name)
    if (added && !sink.add(added)) return false
  }
  return true
}

const renderSign = (name: string) => (name === 'br' ? '\n' : undefined)

function renderEnd(name: string, cells: number): string | undefined {
  if (name === 'p') return cells > 0 ? ' ' : '\n'
  if (name === 'tc') return '\t'
  return name === 'tr' ? '\n' : undefined
}
