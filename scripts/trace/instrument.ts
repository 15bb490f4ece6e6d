import { type AnyNode, type Class, type Function as FunctionNode, parse } from 'acorn'

/** A file whose functions are traced. */
export interface Watched {
  /** Its number in the trace. */
  file: number
  /** Its functions whose duration is traced. */
  spans: readonly string[]
}

type Place = Pick<AnyNode, 'start' | 'end'>

/** A text to insert into a file, and its position. */
interface Insertion {
  at: number
  text: string
}

/**
 * Inserts `__enter(file, name)` at the start of every function of a module. The body of a function
 * in `spans` is run by `__span(file, name, run)` instead. Also returns which of those functions the
 * module has.
 */
export function instrument(source: string, watched: Watched): { text: string; spans: string[] } {
  const spans: string[] = []
  const insertions: Insertion[] = []
  const see = (node: AnyNode, name: string) => {
    if (isClass(node)) insertions.push(...intoClass(node, name, watched))
    if (!isFunction(node)) return
    if (watched.spans.includes(name)) spans.push(name)
    insertions.push(...intoFunction(node, name, watched))
  }
  visit(parse(source, { ecmaVersion: 'latest', sourceType: 'module' }), '', see)
  return { text: withInsertions(source, insertions), spans }
}

/** Visits every node with the name that it has or inherits. */
function visit(node: AnyNode, given: string, see: (node: AnyNode, name: string) => void): void {
  const name = 'id' in node && node.id?.type === 'Identifier' ? node.id.name : given
  see(node, name)
  const gives = nameGivenBy(node, name)
  for (const child of Object.values(node).flat()) if (isNode(child)) visit(child, gives, see)
}

const isNode = (value: unknown): value is AnyNode =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'

const FUNCTIONS = ['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']
const CLASSES = ['ClassDeclaration', 'ClassExpression']

const isFunction = (node: AnyNode): node is AnyNode & FunctionNode => FUNCTIONS.includes(node.type)
const isClass = (node: AnyNode): node is AnyNode & Class => CLASSES.includes(node.type)

/** Returns the name for a function that is a child of this node and has none of its own. */
function nameGivenBy(node: AnyNode, name: string): string {
  if (node.type === 'VariableDeclarator') return name
  if (node.type === 'ClassBody') return name
  if (isClass(node)) return name
  if (node.type === 'MethodDefinition' && node.kind === 'constructor') return `new ${name}`
  if (node.type === 'AssignmentExpression') return nameOf(node.left)
  return 'key' in node ? nameOf(node.key) : ''
}

function nameOf(node: AnyNode): string {
  if (node.type === 'Identifier') return node.name
  if (node.type === 'PrivateIdentifier') return `#${node.name}`
  return node.type === 'MemberExpression' ? nameOf(node.property) : ''
}

function intoFunction(node: FunctionNode, name: string, { file, spans }: Watched): Insertion[] {
  const what = `${file}, ${JSON.stringify(name)}`
  if (!spans.includes(name)) return atStart(node, `__enter(${what})`)
  if (node.generator) throw new Error(`${name} is a generator: how long it runs is not known`)
  return around(node, `__span(${what}, ${node.async ? 'async ' : ''}() => `)
}

function atStart({ body }: FunctionNode, enter: string): Insertion[] {
  if (body.type === 'BlockStatement') return [{ at: body.start + 1, text: ` ${enter};` }]
  return enclosed(body, `(${enter}, `, ')')
}

function around({ body }: FunctionNode, run: string): Insertion[] {
  if (body.type !== 'BlockStatement') return enclosed(body, `${run}(`, '))')
  const within = { start: body.start + 1, end: body.end - 1 }
  return enclosed(within, ` return ${run}{`, '});')
}

function enclosed(place: Place, before: string, after: string): Insertion[] {
  return [
    { at: place.start, text: before },
    { at: place.end, text: after },
  ]
}

// Fields of a class are set by code in its file, even without an explicit constructor.
function intoClass({ body, superClass }: Class, name: string, { file }: Watched): Insertion[] {
  const members = body.body
  if (members.some(one => one.type === 'MethodDefinition' && one.kind === 'constructor')) return []
  if (!members.some(one => one.type === 'PropertyDefinition' && !one.static)) return []
  const enter = `__enter(${file}, ${JSON.stringify(`new ${name}`)});`
  const made = superClass ? `(...args) { ${enter} super(...args); }` : `() { ${enter} }`
  return [{ at: body.start + 1, text: ` constructor${made}` }]
}

function withInsertions(source: string, insertions: Insertion[]): string {
  let [text, from] = ['', 0]
  for (const { at, text: more } of insertions.toSorted((a, b) => a.at - b.at)) {
    text += source.slice(from, at) + more
    from = at
  }
  return text + source.slice(from)
}
