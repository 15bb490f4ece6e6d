import type { TextSink } from './text-sink.ts'
import { readAttribute, readXml } from './xml.ts'
import { readZip } from './zip.ts'

/** The parts of a document that have its text, in the order in which they are read. */
const PARTS = /^word\/(?:document|footnotes|endnotes)\.xml$/
const MAIN = 'word/document.xml'

/** Tells whether an archive with this file is a DOCX. */
export const isDocxPart = (name: string): boolean => name === MAIN

/**
 * Reads the text of a DOCX: paragraphs as lines, headings marked as in Markdown, the cells of a row
 * on one line, and notes at the end.
 */
export function readDocx(bytes: Uint8Array, sink: TextSink): void {
  const parts = readZip(bytes, name => PARTS.test(name))
  const names = [MAIN, ...[...parts.keys()].filter(name => name !== MAIN)]
  for (const name of names) {
    const part = parts.get(name)
    if (part && !addPart(part, sink)) return
  }
}

/** What each element adds to the text when it ends. Cells are set apart by tabs. */
const ENDS: Record<string, string> = { p: '\n', tr: '\n', tc: '\t' }
const SIGNS: Record<string, string> = { tab: '\t', br: '\n', cr: '\n', noBreakHyphen: '-' }
const HEADING = /^(?:heading|title|berschrift|überschrift)\s?([1-6])?$/i

function addPart(part: Uint8Array, sink: TextSink): boolean {
  let isText = false
  let cells = 0
  for (const event of readXml(part)) {
    if (event.type === 'text') {
      if (isText && !sink.add(event.text)) return false
      continue
    }
    const { name } = event
    if (event.type === 'open') {
      isText = name === 't' && !event.isEmpty
      if (name === 'tc') cells += 1
      const added = name === 'pStyle' ? renderHeading(event.attributes) : SIGNS[name]
      if (added && !sink.add(added)) return false
      continue
    }
    isText = false
    // A paragraph within a cell is no line of its own.
    const ending = name === 'p' && cells > 0 ? ' ' : ENDS[name]
    if (name === 'tc') cells -= 1
    if (ending && !sink.add(ending)) return false
  }
  return true
}

function renderHeading(attributes: string): string | undefined {
  const found = HEADING.exec(readAttribute(attributes, 'val') ?? '')
  return found ? `${'#'.repeat(Number(found[1] ?? 1))} ` : undefined
}
