import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** What templates read: `Values`, `Release`, `Chart`; `.` is the whole, or what `with` names. */
type Data = unknown

/**
 * Renders a chart as Helm does, as far as its templates use of that language: `if`, `with`, `define`,
 * `include`, and the functions below. Throws for all else, and for a value that is nowhere: Helm itself
 * would print `<no value>`. Returns the documents.
 */
export function renderChart(directory: string, given: Record<string, unknown> = {}): unknown[] {
  const parse = (name: string) =>
    Bun.YAML.parse(readFileSync(join(directory, name), 'utf8')) as Record<string, unknown>
  const chart = parse('Chart.yaml')
  const Chart = { AppVersion: chart.appVersion, Version: chart.version, Name: chart.name }
  const Values = merge(parse('values.yaml'), given)
  const names = readdirSync(join(directory, 'templates')).toSorted()
  const templates = new Map(
    names.map(name => [name, readFileSync(join(directory, 'templates', name), 'utf8')]),
  )
  const defined = new Map<string, Node[]>()
  for (const [name, text] of templates) define(name, text, defined)
  const data = { Values, Chart, Release: { Name: 'gateway', Namespace: 'default' } }
  return names
    .filter(name => name.endsWith('.yaml'))
    .map(name => renderNodes(defined.get(name) as Node[], data, defined))
    .join('\n---\n')
    .split(/^---$/m)
    .map(text => Bun.YAML.parse(text))
    .filter(document => document !== null)
}

function merge(values: unknown, given: unknown): unknown {
  if (!isRecord(values) || !isRecord(given)) return given ?? values
  const names = new Set([...Object.keys(values), ...Object.keys(given)])
  return Object.fromEntries(Array.from(names, name => [name, merge(values[name], given[name])]))
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

type Node =
  | { text: string }
  | { pipeline: string }
  | { block: 'if' | 'with'; pipeline: string; nodes: Node[] }

type Defined = Map<string, Node[]>

/** Parses a file: what it defines, and its text under its own name. */
function define(file: string, text: string, defined: Defined): void {
  const parts = text.split(/(\s*\{\{-[\s\S]*?-?\}\}|\{\{[\s\S]*?-?\}\})/)
  const open: { nodes: Node[]; name: string | null }[] = [{ nodes: [], name: file }]
  const top = () => open[open.length - 1] as (typeof open)[number]
  let trims = false
  for (const part of parts) {
    const [, inner] = /^\s*\{\{-?\s*([\s\S]*?)\s*-?\}\}$/.exec(part) ?? []
    if (inner === undefined) {
      const kept = trims ? part.trimStart() : part
      if (kept !== '') top().nodes.push({ text: kept })
      trims = false
      continue
    }
    trims = part.endsWith('-}}')
    const [word = '', ...rest] = inner.split(' ')
    const pipeline = rest.join(' ')
    if (word === 'define') open.push({ nodes: [], name: JSON.parse(pipeline) })
    else if (word === 'if' || word === 'with') {
      const block: Node = { block: word, pipeline, nodes: [] }
      top().nodes.push(block)
      open.push({ nodes: block.nodes, name: null })
    } else if (word === 'end' && open.length > 1) {
      const { name, nodes } = open.pop() as (typeof open)[number]
      if (name !== null) defined.set(name, nodes)
    } else top().nodes.push({ pipeline: inner })
  }
  if (open.length !== 1) throw new Error(`${file}: a block has no end`)
  defined.set(file, top().nodes)
}

const renderNodes = (nodes: Node[], dot: Data, defined: Defined): string =>
  nodes
    .map(node => {
      if ('text' in node) return node.text
      const value = evaluate(node.pipeline, dot, defined)
      if (!('block' in node)) return String(value)
      if (!isTrue(value)) return ''
      return renderNodes(node.nodes, node.block === 'with' ? value : dot, defined)
    })
    .join('')

const isTrue = (value: unknown) =>
  Boolean(value) && !(isRecord(value) && Object.keys(value).length === 0)

/** Evaluates `a b | c d`: what a part comes to is the last argument of the next. */
function evaluate(pipeline: string, dot: Data, defined: Defined): unknown {
  let value: unknown
  for (const [i, part] of splitOutside(pipeline, '|').entries())
    value = apply(splitOutside(part, ' '), i === 0 ? [] : [value], dot, defined)
  return value
}

function apply(
  [head = '', ...rest]: string[],
  last: unknown[],
  dot: Data,
  defined: Defined,
): unknown {
  const values = [...rest.map(word => apply([word], [], dot, defined)), ...last]
  if (head.startsWith('(')) return evaluate(head.slice(1, -1), dot, defined)
  if (head.startsWith('"')) return JSON.parse(head)
  if (/^\d+$/.test(head)) return Number(head)
  if (head.startsWith('.')) return readField(head, dot)
  if (head === 'include') {
    const nodes = defined.get(String(values[0]))
    if (!nodes) throw new Error(`${values[0]} is not defined`)
    return renderNodes(nodes, values[1], defined)
  }
  const run = FUNCTIONS[head]
  if (!run) throw new Error(`${head} is no function of this renderer`)
  return run(...values)
}

function readField(path: string, dot: Data): unknown {
  let value = dot
  for (const name of path.split('.').filter(part => part !== '')) {
    if (!isRecord(value) || !(name in value)) throw new Error(`${path} is nowhere`)
    value = value[name]
  }
  return value
}

/** Splits a text where no quotes and no parentheses are open. */
function splitOutside(text: string, separator: string): string[] {
  const parts = ['']
  let [depth, quoted] = [0, false]
  for (const char of text) {
    if (char === '"') quoted = !quoted
    if (!quoted && char === '(') depth += 1
    if (!quoted && char === ')') depth -= 1
    if (char === separator && depth === 0 && !quoted) parts.push('')
    else parts[parts.length - 1] += char
  }
  return parts.map(part => part.trim()).filter(part => part !== '')
}

const FUNCTIONS: Record<string, (...values: unknown[]) => unknown> = {
  quote: value => JSON.stringify(String(value)),
  not: value => !isTrue(value),
  add: (...values) => values.reduce<number>((sum, value) => sum + Number(value), 0),
  default: (fallback, value) => (isTrue(value) ? value : fallback),
  printf: (format, ...values) => String(format).replaceAll('%s', () => String(values.shift())),
  toYaml: value => Bun.YAML.stringify(value, null, 2).trimEnd(),
  nindent: (count, text) => `\n${String(text).replace(/^(?=.)/gm, ' '.repeat(Number(count)))}`,
  required(message, value) {
    if (!isTrue(value)) throw new Error(String(message))
    return value
  },
}
