import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import ts from 'typescript-5'
import { countUpwardImports } from './rooms.ts'

/** A source file, as far as its shape goes. */
export interface SourceFile {
  /** From the root. */
  path: string
  lines: number
  /** Lines with code on them. */
  codeLines: number
  functions: number
  /** The names of the functions that it exports. */
  exportedFunctions: string[]
  /** The files of the tree that it imports, types included, without those it names twice. */
  imports: string[]
  /** What it imports by name, as `path#name`. */
  uses: string[]
}

/** The shape of the tree. Shares are in per cent, with one decimal. */
export interface TreeFigures {
  files: number
  lines: number
  functions: number
  /** Files that one other file imports, and no more. */
  files_with_one_importer: number
  files_with_one_importer_percent: number
  exported_functions: number
  exported_functions_with_one_user: number
  exported_functions_with_one_user_percent: number
  functions_per_1000_lines: number
  files_under_25_lines: number
  /** Groups of files that import each other, types included. */
  circles: number
  files_in_circles: number
  files_in_largest_circle: number
  /** Imports of a room that stands above the importing file's, in the order of `rooms.ts`. */
  upward_imports: number
}

const SHORT = 25

const READING: ts.CreateSourceFileOptions = {
  languageVersion: ts.ScriptTarget.Latest,
  jsDocParsingMode: ts.JSDocParsingMode.ParseNone,
}

/** Measures the files below `src`, in the directory. Declarations are left out. */
export function measureTree(root: string): TreeFigures {
  const files = readTree(root)
  const importers = countImporters(files)
  const users = countUsers(files)
  const exported = files.flatMap(({ path, exportedFunctions }) =>
    exportedFunctions.map(name => `${path}#${name}`),
  )
  const alone = files.filter(({ path }) => importers.get(path) === 1).length
  const usedOnce = exported.filter(name => users.get(name) === 1).length
  const functions = sum(files.map(file => file.functions))
  const circles = findCircles(files)
  return {
    files: files.length,
    lines: sum(files.map(({ lines }) => lines)),
    functions,
    files_with_one_importer: alone,
    files_with_one_importer_percent: toPercent(alone, files.length),
    exported_functions: exported.length,
    exported_functions_with_one_user: usedOnce,
    exported_functions_with_one_user_percent: toPercent(usedOnce, exported.length),
    functions_per_1000_lines: round((1000 * functions) / sum(files.map(file => file.codeLines))),
    files_under_25_lines: files.filter(({ lines }) => lines < SHORT).length,
    circles: circles.length,
    files_in_circles: sum(circles.map(circle => circle.length)),
    files_in_largest_circle: Math.max(0, ...circles.map(circle => circle.length)),
    upward_imports: countUpwardImports(files),
  }
}

const sum = (numbers: number[]): number => numbers.reduce((total, number) => total + number, 0)
const round = (number: number): number => Math.round(number * 10) / 10
const toPercent = (part: number, whole: number): number => round((100 * part) / whole)

function readTree(root: string): SourceFile[] {
  const paths = [...new Bun.Glob('src/**/*.{ts,tsx}').scanSync(root)].sort()
  const sources = paths.filter(path => !path.endsWith('.d.ts'))
  const known = new Set(sources)
  return sources.map(path => readSource(path, readFileSync(join(root, path), 'utf8'), known))
}

/** Reads the shape of one file. `known` are the paths of the tree. */
export function readSource(path: string, text: string, known: Set<string>): SourceFile {
  const kind = path.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS
  const source = ts.createSourceFile(path, text, READING, false, kind)
  const imports = source.statements
    .filter(ts.isImportDeclaration)
    .map(statement => ({ statement, target: resolveImport(path, statement) }))
    .filter(({ target }) => known.has(target))
  return {
    path,
    lines: text.split('\n').length - (text.endsWith('\n') ? 1 : 0),
    codeLines: countCodeLines(source),
    functions: countFunctions(source),
    exportedFunctions: source.statements.flatMap(listExportedFunctions),
    imports: [...new Set(imports.map(({ target }) => target))],
    uses: imports.flatMap(({ statement, target }) =>
      listImportedNames(statement).map(name => `${target}#${name}`),
    ),
  }
}

function resolveImport(path: string, { moduleSpecifier }: ts.ImportDeclaration): string {
  const specifier = ts.isStringLiteral(moduleSpecifier) ? moduleSpecifier.text : ''
  return specifier.startsWith('.') ? normalize(join(dirname(path), specifier)) : ''
}

function listImportedNames({ importClause }: ts.ImportDeclaration): string[] {
  const bindings = importClause?.namedBindings
  if (!bindings || !ts.isNamedImports(bindings)) return []
  return bindings.elements.map(({ propertyName, name }) => (propertyName ?? name).text)
}

const COMMENT = /\/\*[\s\S]*?\*\/|\/\/.*/g

/** Counts the lines on which a token stands that is no comment: of a literal, all that it has. */
function countCodeLines(source: ts.SourceFile): number {
  let text = ''
  let end = 0
  const visit = (node: ts.Node): void => {
    if (!isLiteral(node)) {
      ts.forEachChild(node, visit)
      return
    }
    const start = node.getStart(source)
    // What is like a comment in a literal is none, and its empty lines count.
    text += source.text.slice(end, start)
    text += source.text.slice(start, node.end).replaceAll(/^$|[^\n]+/gm, '_')
    end = node.end
  }
  visit(source)
  const code = (text + source.text.slice(end)).replaceAll(COMMENT, keepLines)
  return code.split('\n').filter(line => line.trim()).length
}

const isLiteral = ({ kind }: ts.Node): boolean =>
  (kind >= ts.SyntaxKind.FirstLiteralToken && kind <= ts.SyntaxKind.LastTemplateToken) ||
  kind === ts.SyntaxKind.JsxText

const keepLines = (comment: string): string => comment.replaceAll(/[^\n]+/g, '')

/** Counts functions with a body, of every kind. */
function countFunctions(source: ts.SourceFile): number {
  let count = 0
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node) && 'body' in node && node.body) count++
    ts.forEachChild(node, visit)
  }
  visit(source)
  return count
}

function listExportedFunctions(statement: ts.Statement): string[] {
  const modifiers = ts.canHaveModifiers(statement) ? ts.getModifiers(statement) : undefined
  if (!modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) return []
  if (ts.isFunctionDeclaration(statement)) return statement.name ? [statement.name.text] : []
  if (!ts.isVariableStatement(statement)) return []
  return statement.declarationList.declarations.flatMap(({ name, initializer }) =>
    ts.isIdentifier(name) && initializer && isFunction(initializer) ? [name.text] : [],
  )
}

const isFunction = (node: ts.Node): boolean =>
  ts.isArrowFunction(node) || ts.isFunctionExpression(node)

function countImporters(files: SourceFile[]): Map<string, number> {
  return countEach(files.flatMap(({ imports }) => imports))
}

/** Counts the files that use each exported name. */
function countUsers(files: SourceFile[]): Map<string, number> {
  return countEach(files.flatMap(({ uses }) => [...new Set(uses)]))
}

function countEach(names: string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return counts
}

/** Returns the groups of two files or more of which each imports each other, over any way. */
export function findCircles(files: Pick<SourceFile, 'path' | 'imports'>[]): string[][] {
  const graph = new Map(files.map(({ path, imports }) => [path, imports]))
  const order: string[] = []
  const seen = new Set<string>()
  for (const path of graph.keys()) collectInPostorder(path, graph, seen, order)
  const importers = reverse(graph)
  const grouped = new Set<string>()
  // Kosaraju: what is reached against the arrows, from the last that was left, is one group.
  const groups = order.toReversed().map(path => {
    const group: string[] = []
    collectInPostorder(path, importers, grouped, group)
    return group
  })
  return groups.filter(group => group.length > 1)
}

function collectInPostorder(
  path: string,
  graph: Map<string, string[]>,
  seen: Set<string>,
  order: string[],
): void {
  if (seen.has(path)) return
  seen.add(path)
  for (const next of graph.get(path) ?? []) collectInPostorder(next, graph, seen, order)
  order.push(path)
}

function reverse(graph: Map<string, string[]>): Map<string, string[]> {
  const reversed = new Map<string, string[]>([...graph.keys()].map(path => [path, []]))
  for (const [path, targets] of graph) for (const to of targets) reversed.get(to)?.push(path)
  return reversed
}
