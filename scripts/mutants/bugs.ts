import ts from 'typescript-5'

/** A small bug that can be planted in a file: a text instead of another. */
export interface Bug {
  start: number
  end: number
  text: string
  /** The line that it is in, from 1. */
  line: number
  /** What becomes of the line, for a person. */
  change: string
}

type Replacement = [start: number, end: number, text: string]

const OPERATORS = new Map([
  [ts.SyntaxKind.EqualsEqualsEqualsToken, '!=='],
  [ts.SyntaxKind.ExclamationEqualsEqualsToken, '==='],
  [ts.SyntaxKind.LessThanToken, '<='],
  [ts.SyntaxKind.LessThanEqualsToken, '<'],
  [ts.SyntaxKind.GreaterThanToken, '>='],
  [ts.SyntaxKind.GreaterThanEqualsToken, '>'],
  [ts.SyntaxKind.AmpersandAmpersandToken, '||'],
  [ts.SyntaxKind.BarBarToken, '&&'],
  [ts.SyntaxKind.PlusToken, '-'],
  [ts.SyntaxKind.MinusToken, '+'],
  [ts.SyntaxKind.AsteriskToken, '/'],
  [ts.SyntaxKind.SlashToken, '*'],
  [ts.SyntaxKind.PlusEqualsToken, '-='],
  [ts.SyntaxKind.MinusEqualsToken, '+='],
  [ts.SyntaxKind.QuestionQuestionEqualsToken, '='],
])

const METHODS: Record<string, string> = {
  'Math.min': 'Math.max',
  'Math.max': 'Math.min',
  'Promise.all': 'Promise.race',
}

/**
 * Lists the bugs that can be planted in a file, in its order: an operator, a constant or a condition
 * that is another, a statement that is gone, such as an awaited pause. Types have none.
 */
export function listBugs(path: string, text: string): Bug[] {
  const kind = path.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true, kind)
  const bugs: Bug[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isTypeNode(node) || ts.isInterfaceDeclaration(node)) return
    if (ts.isImportDeclaration(node) || ts.isTypeAliasDeclaration(node)) return
    for (const replacement of listReplacements(node)) bugs.push(toBug(source, replacement))
    ts.forEachChild(node, visit)
  }
  visit(source)
  return bugs
}

/** Returns a file's text with a bug in it. */
export const plantBug = (text: string, bug: Bug): string =>
  text.slice(0, bug.start) + bug.text + text.slice(bug.end)

function listReplacements(node: ts.Node): Replacement[] {
  if (ts.isBinaryExpression(node)) return replaceOperator(node)
  if (ts.isExpressionStatement(node)) return [replace(node, ';')]
  if (ts.isIfStatement(node)) return [replace(node.expression, `!(${node.expression.getText()})`)]
  if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.ExclamationToken)
    return [replace(node, node.operand.getText())]
  if (ts.isConditionalExpression(node))
    return [replace(node.condition, `!(${node.condition.getText()})`)]
  if (ts.isNumericLiteral(node) && !ts.isPropertyAssignment(node.parent))
    return [replace(node, `(${node.text} + 1)`)]
  if (node.kind === ts.SyntaxKind.TrueKeyword) return [replace(node, 'false')]
  if (node.kind === ts.SyntaxKind.FalseKeyword) return [replace(node, 'true')]
  const other = ts.isPropertyAccessExpression(node) && METHODS[node.getText()]
  return other ? [replace(node, other)] : []
}

function replaceOperator({ left, operatorToken, right }: ts.BinaryExpression): Replacement[] {
  const other = OPERATORS.get(operatorToken.kind)
  const isOfText = [left, right].some(side => ts.isStringLiteralLike(side) || isTemplate(side))
  const isSum = operatorToken.kind === ts.SyntaxKind.PlusToken
  return other && !(isSum && isOfText) ? [replace(operatorToken, other)] : []
}

const isTemplate = (node: ts.Node): boolean => ts.isTemplateExpression(node)

const replace = (node: ts.Node, text: string): Replacement => [node.getStart(), node.end, text]

function toBug(source: ts.SourceFile, [start, end, text]: Replacement): Bug {
  const old = source.text.slice(start, end).replace(/\s+/g, ' ')
  const { line } = source.getLineAndCharacterOfPosition(start)
  const change = text === ';' ? `without ${old}` : `${old} → ${text.replace(/\s+/g, ' ')}`
  return { start, end, text, line: line + 1, change }
}
