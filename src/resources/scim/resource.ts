import { isObject, type Json } from '../../base/json.ts'
import {
  type Attribute,
  findAttribute,
  findExtension,
  listAttributes,
  type ResourceType,
} from './attributes.ts'
import { parseBoolean, type ResolvedPath, tryResolvePath } from './match.ts'
import { refused } from './refusal.ts'

// The most values of a list and characters of a text. Only the size of the body limits the members
// of a group.
const MAX_VALUES = 100
const LONGEST_TEXT = 4_096
const LONGEST_BINARY = 65_536

/**
 * Parses a resource from a client, with the names of the schema. Omits attributes that are read
 * only, are not stored or are unknown (RFC 7644, 3.3). Throws 400 `invalidSyntax` without the
 * schema's id, and 400 `invalidValue` for an invalid value.
 */
export function parseResource(type: ResourceType, body: unknown): Json {
  if (!isObject(body)) throw refused('invalidSyntax', 'expected an object')
  const { schemas } = body
  if (!Array.isArray(schemas) || !schemas.some(schemaId => isSameId(schemaId, type.schema.id)))
    throw refused('invalidSyntax', `schemas: expected ${type.schema.id} among them`)
  const resource = readAttributes(listAttributes(type), body, '')
  for (const [id, value] of Object.entries(body)) {
    const extension = findExtension(type, id)
    const members =
      extension && isObject(value)
        ? readAttributes(extension.attributes, value, `${extension.id}:`)
        : {}
    if (extension && Object.keys(members).length > 0) resource[extension.id] = members
  }
  return validateResource(type, resource)
}

const isSameId = (a: unknown, b: string) =>
  typeof a === 'string' && a.toLowerCase() === b.toLowerCase()

/**
 * Returns the resource if it has all required attributes and no list with two primary values.
 * Throws 400 `invalidValue`.
 */
export function validateResource(type: ResourceType, resource: Json): Json {
  for (const { name, required } of type.schema.attributes) {
    if (required && (typeof resource[name] !== 'string' || resource[name].trim() === ''))
      throw refused('invalidValue', `${name}: expected a text`)
  }
  for (const [name, value] of Object.entries(resource)) {
    if (
      Array.isArray(value) &&
      value.filter(element => isObject(element) && element.primary === true).length > 1
    )
      throw refused('invalidValue', `${name}: expected one that is primary at most`)
  }
  return resource
}

function readAttributes(attributes: Attribute[], body: Json, path: string): Json {
  const entries = Object.entries(body).flatMap(([name, value]) => {
    const attribute = findAttribute(attributes, name)
    const read =
      attribute && isStored(attribute)
        ? toStoredValue(attribute, value, path + attribute.name)
        : undefined
    return attribute && read !== undefined ? [[attribute.name, read] as const] : []
  })
  return Object.fromEntries(entries)
}

/** Whether a client can write the attribute and it is stored. */
export const isStored = ({ mutability, returned }: Attribute): boolean =>
  mutability === 'readWrite' && returned !== 'never'

/** Converts the value of an attribute to its stored form. Throws 400 `invalidValue`. */
export function toStoredValue(
  attribute: Attribute,
  value: unknown,
  path = attribute.name,
): unknown {
  if (value === null || value === undefined) return undefined
  if (!attribute.multiValued) return toStoredSingle(attribute, value, path)
  const values = Array.isArray(value) ? value : [value]
  checkLength(attribute, values, path)
  const stored = values
    .map(element => toStoredSingle(attribute, element, path))
    .filter(element => element !== undefined)
  return stored.length > 0 ? stored : undefined
}

/** Throws 400 `invalidValue` for a list that is too long. */
export function checkLength({ name }: Attribute, { length }: unknown[], path: string = name): void {
  if (length > MAX_VALUES && name !== 'members')
    throw refused('invalidValue', `${path}: expected at most ${MAX_VALUES} values`)
}

/** Converts one value of an attribute to its stored form. Throws 400 `invalidValue`. */
export function toStoredSingle(
  attribute: Attribute,
  value: unknown,
  path = attribute.name,
): unknown {
  switch (attribute.type) {
    case 'complex':
      return readComplex(attribute, value, path)
    case 'boolean':
      return readBoolean(value, path)
    case 'dateTime':
      return readTime(value, path)
    default:
      return readText(value, path, attribute.type === 'binary' ? LONGEST_BINARY : LONGEST_TEXT)
  }
}

// A plain text may stand for an object with only a `value`: Entra ID sends a manager like this.
function readComplex(
  { subAttributes = [] }: Attribute,
  value: unknown,
  path: string,
): Json | undefined {
  const whole = isObject(value)
    ? value
    : findAttribute(subAttributes, 'value') && typeof value === 'string'
      ? { value }
      : undefined
  if (!whole) throw refused('invalidValue', `${path}: expected an object`)
  const members = readAttributes(subAttributes, whole, `${path}.`)
  const missing = subAttributes.find(
    ({ required, name }) => required && members[name] === undefined,
  )
  if (missing) throw refused('invalidValue', `${path}.${missing.name}: expected a ${missing.type}`)
  return Object.keys(members).length > 0 ? members : undefined
}

// Entra ID writes "True" and "False".
function readBoolean(value: unknown, path: string): boolean {
  const boolean = typeof value === 'string' ? parseBoolean(value) : value
  if (typeof boolean !== 'boolean') throw refused('invalidValue', `${path}: expected true or false`)
  return boolean
}

function readTime(value: unknown, path: string): string {
  if (typeof value !== 'string' || Number.isNaN(Date.parse(value)))
    throw refused('invalidValue', `${path}: expected a time`)
  return value
}

function readText(value: unknown, path: string, maximum: number): string {
  if (typeof value !== 'string') throw refused('invalidValue', `${path}: expected a text`)
  if (value.length > maximum)
    throw refused('invalidValue', `${path}: expected at most ${maximum} characters`)
  return value
}

/** The attributes that a response should have (RFC 7644, 3.9). Null means the default ones. */
export interface Projection {
  attributes: string[] | null
  excludedAttributes: string[] | null
}

/** Returns only the selected attributes of a resource, and those that are always shown. */
export function applyProjection(
  type: ResourceType,
  resource: Json,
  { attributes, excludedAttributes }: Projection,
): Json {
  if (attributes) return pickAttributes(type, resource, attributes)
  return excludedAttributes ? omitAttributes(type, resource, excludedAttributes) : resource
}

function pickAttributes(type: ResourceType, resource: Json, names: string[]): Json {
  const alwaysReturned = listAttributes(type).filter(attribute => attribute.returned === 'always')
  const projection: Json = Object.fromEntries(
    alwaysReturned.map(({ name }) => [name, resource[name]]),
  )
  for (const path of resolvePaths(type, names)) copyAttribute(path, resource, projection)
  return projection
}

function copyAttribute(
  { extension, attribute, subAttribute }: ResolvedPath,
  from: Json,
  to: Json,
): void {
  if (extension !== null && attribute) {
    const [inner, outer] = [from[extension], isObject(to[extension]) ? to[extension] : {}]
    if (isObject(inner)) to[extension] = outer
    if (isObject(inner))
      copyAttribute(
        { extension: null, attribute, subAttribute, matchesValue: null, filter: null },
        inner,
        outer,
      )
    return
  }
  const name = attribute?.name ?? extension ?? ''
  if (from[name] !== undefined)
    to[name] = subAttribute
      ? mergeSelections(to[name], pickSubAttribute(from[name], subAttribute.name))
      : from[name]
}

const pickSubAttribute = (value: unknown, sub: string): unknown =>
  Array.isArray(value)
    ? value.map(element => pickSubAttribute(element, sub))
    : isObject(value) && value[sub] !== undefined
      ? { [sub]: value[sub] }
      : {}

/** Merges two selections from the same value. */
function mergeSelections(a: unknown, b: unknown): unknown {
  if (Array.isArray(a) && Array.isArray(b)) return a.map((value, i) => mergeSelections(value, b[i]))
  return isObject(a) && isObject(b) ? { ...a, ...b } : b
}

function omitAttributes(type: ResourceType, resource: Json, names: string[]): Json {
  const projection = { ...resource }
  for (const { extension, attribute, subAttribute } of resolvePaths(type, names)) {
    if (attribute?.returned === 'always') continue
    if (extension !== null && attribute)
      projection[extension] = omitMember(
        projection[extension],
        subAttribute ? null : attribute.name,
      )
    else if (attribute && subAttribute)
      projection[attribute.name] = omitMember(projection[attribute.name], subAttribute.name)
    else delete projection[attribute?.name ?? extension ?? '']
  }
  return projection
}

const omitMember = (value: unknown, name: string | null): unknown =>
  Array.isArray(value)
    ? value.map(element => omitMember(element, name))
    : isObject(value)
      ? Object.fromEntries(Object.entries(value).filter(([key]) => key !== name))
      : value

// Unknown names select nothing.
const resolvePaths = (type: ResourceType, names: string[]) =>
  names.flatMap(name => tryResolvePath(type, name) ?? [])
