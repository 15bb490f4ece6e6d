import { join, relative, resolve } from 'node:path'
import { Glob } from 'bun'

const ROOT = resolve(import.meta.dir, '../..')

/** A Markdown document of the project. */
export interface Document {
  /** Its path from the root. */
  path: string
  text: string
}

/** A fenced block of code: its language, the rest of its info string, and its lines. */
export interface Block {
  document: string
  language: string
  info: string
  code: string
}

/** Reads every document: those at the root and everything below `docs/`. */
export async function readDocuments(): Promise<Document[]> {
  const paths = ['*.md', 'docs/**/*.md'].flatMap(pattern => [...new Glob(pattern).scanSync(ROOT)])
  return Promise.all(
    paths.map(async path => ({ path, text: await Bun.file(join(ROOT, path)).text() })),
  )
}

/** Lists the fenced blocks of a document, without the indentation that a list gives them. */
export const listBlocks = ({ path, text }: Document): Block[] =>
  [...text.matchAll(/^( *)```(\w*) ?(.*)\n([\s\S]*?)^\1```$/gm)].map(
    ([, indent = '', language = '', info = '', code = '']) => ({
      document: path,
      language,
      info,
      code: code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    }),
  )

/** Lists the links of a document as paths from the root, with their anchors. Addresses of the web are left out. */
export const listLinks = ({ path, text }: Document): string[] =>
  [...withoutBlocks(text).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = '']) => target)
    .filter(target => !/^[a-z]+:/.test(target))
    .map(target =>
      target.startsWith('#')
        ? `${path}${target}`
        : relative(ROOT, resolve(ROOT, path, '..', target)),
    )

/** Lists the anchors of a document: its headings as GitHub names them. */
export const listAnchors = ({ text }: Document): string[] =>
  [...withoutBlocks(text).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\w\s-]/g, '')
      .trim()
      .replaceAll(' ', '-'),
  )

/** Lists the command lines `gateway …` of a document, in blocks of shell and in the text. */
export function listCommands(document: Document): string[] {
  const inline = [...withoutBlocks(document.text).matchAll(/`(gateway [^`]+)`/g)]
  const shell = listBlocks(document).filter(({ language }) => language === 'sh')
  const lines = shell.flatMap(({ code }) => code.split('\n'))
  const typed = lines.flatMap(
    line =>
      /(?:^|\$\()\s*(?:npm run --silent gateway --|dist\/gateway|gateway) (.+)/.exec(line)?.[1] ??
      [],
  )
  return [...inline.map(([, command = '']) => command.slice('gateway '.length)), ...typed]
}

const withoutBlocks = (text: string): string => text.replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '')

/** Splits a command line as a shell does, as far as quotes and pipes. */
export function splitCommand(line: string): string[] {
  const words = [...line.matchAll(/"((?:\\.|[^"])*)"|'([^']*)'|[^\s"']+/g)]
  const plain = words.map(([word, double, single]) => double ?? single ?? word)
  const end = plain.findIndex(word => /^([|<>]|[^"']*\))$/.test(word))
  return end < 0 ? plain : plain.slice(0, end)
}
