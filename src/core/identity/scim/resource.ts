import { isObject, type Json } from '../../kernel/json.ts'
import {
  type Attribute,
  attributesOf,
  extensionOf,
  named,
  type ResourceType,
} from './attributes.ts'
import { booleanOf, type Place, placeOf } from './match.ts'
import { refused } from './refusal.ts'

// The most values of a list and characters of a text. Only the size of the body limits the members
// of a group.
const MOST_VALUES = 100
const LONGEST_TEXT = 4_096
const LONGEST_BINARY = 65_536

/**
 * Parses a resource from a client, with the names of the schema. Omits attributes that are read
 * only, are not stored or are unknown (RFC 7644, 3.3). Throws 400 `invalidSyntax` without the
 * schema's id, and 400 `invalidValue` for an invalid value.
 */
export function resourceOf(type: ResourceType, body: unknown): Json {
  if (!isObject(body)) throw refused('invalidSyntax', 'expected an object')
  const { schemas } = body
  if (!Array.isArray(schemas) || !schemas.some(one => isSame(one, type.schema.id)))
    throw refused('invalidSyntax', `schemas: expected ${type.schema.id} among them`)
  const resource = membersOf(attributesOf(type), body, '')
  for (const [id, value] of Object.entries(body)) {
    const extension = extensionOf(type, id)
    const members =
      extension && isObject(value) ? membersOf(extension.attributes, value, `${extension.id}:`) : {}
    if (extension && Object.keys(members).length > 0) resource[extension.id] = members
  }
  return checkedResource(type, resource)
}

const isSame = (one: unknown, other: string) =>
  typeof one === 'string' && one.toLowerCase() === other.toLowerCase()

/**
 * Returns the resource if it has all required attributes and no list with two primary values.
 * Throws 400 `invalidValue`.
 */
export function checkedResource(type: ResourceType, resource: Json): Json {
  for (const { name, required } of type.schema.attributes) {
    if (required && (typeof resource[name] !== 'string' || resource[name].trim() === ''))
      throw refused('invalidValue', `${name}: expected a text`)
  }
  for (const [name, value] of Object.entries(resource)) {
    if (
      Array.isArray(value) &&
      value.filter(one => isObject(one) && one.primary === true).length > 1
    )
      throw refused('invalidValue', `${name}: expected one that is primary at most`)
  }
  return resource
}

function membersOf(attributes: Attribute[], body: Json, path: string): Json {
  const found = Object.entries(body).flatMap(([name, value]) => {
    const attribute = named(attributes, name)
    const read =
      attribute && isKept(attribute)
        ? keptValue(attribute, value, path + attribute.name)
        : undefined
    return attribute && read !== undefined ? [[attribute.name, read] as const] : []
  })
  return Object.fromEntries(found)
}

/** Whether a client can write the attribute and it is stored. */
export const isKept = ({ mutability, returned }: Attribute): boolean =>
  mutability === 'readWrite' && returned !== 'never'

/** Converts the value of an attribute to its stored form. Throws 400 `invalidValue`. */
export function keptValue(attribute: Attribute, value: unknown, path = attribute.name): unknown {
  if (value === null || value === undefined) return undefined
  if (!attribute.multiValued) return keptSingle(attribute, value, path)
  const values = Array.isArray(value) ? value : [value]
  if (values.length > MOST_VALUES && attribute.name !== 'members')
    throw refused('invalidValue', `${path}: expected at most ${MOST_VALUES} values`)
  const read = values.map(one => keptSingle(attribute, one, path)).filter(one => one !== undefined)
  return read.length > 0 ? read : undefined
}

/** Converts one value of an attribute to its stored form. Throws 400 `invalidValue`. */
export function keptSingle(attribute: Attribute, value: unknown, path = attribute.name): unknown {
  switch (attribute.type) {
    case 'complex':
      return complexOf(attribute, value, path)
    case 'boolean':
      return booleanFrom(value, path)
    case 'dateTime':
      return timeFrom(value, path)
    default:
      return textFrom(value, path, attribute.type === 'binary' ? LONGEST_BINARY : LONGEST_TEXT)
  }
}

// A plain text may stand for an object with only a `value`: Entra ID sends a manager like this.
function complexOf(
  { subAttributes = [] }: Attribute,
  value: unknown,
  path: string,
): Json | undefined {
  const whole = isObject(value)
    ? value
    : named(subAttributes, 'value') && typeof value === 'string'
      ? { value }
      : undefined
  if (!whole) throw refused('invalidValue', `${path}: expected an object`)
  const members = membersOf(subAttributes, whole, `${path}.`)
  const missing = subAttributes.find(
    ({ required, name }) => required && members[name] === undefined,
  )
  if (missing) throw refused('invalidValue', `${path}.${missing.name}: expected a ${missing.type}`)
  return Object.keys(members).length > 0 ? members : undefined
}

// Entra ID writes "True" and "False".
function booleanFrom(value: unknown, path: string): boolean {
  const said = typeof value === 'string' ? booleanOf(value) : value
  if (typeof said !== 'boolean') throw refused('invalidValue', `${path}: expected true or false`)
  return said
}

function timeFrom(value: unknown, path: string): string {
  if (typeof value !== 'string' || Number.isNaN(Date.parse(value)))
    throw refused('invalidValue', `${path}: expected a time`)
  return value
}

function textFrom(value: unknown, path: string, longest: number): string {
  if (typeof value !== 'string') throw refused('invalidValue', `${path}: expected a text`)
  if (value.length > longest)
    throw refused('invalidValue', `${path}: expected at most ${longest} characters`)
  return value
}

/** The attributes that a response should have (RFC 7644, 3.9). Null means the default ones. */
export interface Projection {
  attributes: string[] | null
  excludedAttributes: string[] | null
}

/** Returns only the selected attributes of a resource, and those that are always shown. */
export function projected(
  type: ResourceType,
  resource: Json,
  { attributes, excludedAttributes }: Projection,
): Json {
  if (attributes) return only(type, resource, attributes)
  return excludedAttributes ? without(type, resource, excludedAttributes) : resource
}

function only(type: ResourceType, resource: Json, names: string[]): Json {
  const always = attributesOf(type).filter(one => one.returned === 'always')
  const shown: Json = Object.fromEntries(always.map(({ name }) => [name, resource[name]]))
  for (const place of placesOf(type, names)) copy(place, resource, shown)
  return shown
}

function copy({ extension, attribute, sub }: Place, from: Json, to: Json): void {
  if (extension !== null && attribute) {
    const [inner, outer] = [from[extension], isObject(to[extension]) ? to[extension] : {}]
    if (isObject(inner)) to[extension] = outer
    if (isObject(inner))
      copy({ extension: null, attribute, sub, isMeant: null, filter: null }, inner, outer)
    return
  }
  const name = attribute?.name ?? extension ?? ''
  if (from[name] !== undefined)
    to[name] = sub ? merged(to[name], picked(from[name], sub.name)) : from[name]
}

const picked = (value: unknown, sub: string): unknown =>
  Array.isArray(value)
    ? value.map(one => picked(one, sub))
    : isObject(value) && value[sub] !== undefined
      ? { [sub]: value[sub] }
      : {}

/** Merges two selections from the same value. */
function merged(one: unknown, other: unknown): unknown {
  if (Array.isArray(one) && Array.isArray(other))
    return one.map((value, i) => merged(value, other[i]))
  return isObject(one) && isObject(other) ? { ...one, ...other } : other
}

function without(type: ResourceType, resource: Json, names: string[]): Json {
  const shown = { ...resource }
  for (const { extension, attribute, sub } of placesOf(type, names)) {
    if (attribute?.returned === 'always') continue
    if (extension !== null && attribute)
      shown[extension] = omitted(shown[extension], sub ? null : attribute.name)
    else if (attribute && sub) shown[attribute.name] = omitted(shown[attribute.name], sub.name)
    else delete shown[attribute?.name ?? extension ?? '']
  }
  return shown
}

const omitted = (value: unknown, name: string | null): unknown =>
  Array.isArray(value)
    ? value.map(one => omitted(one, name))
    : isObject(value)
      ? Object.fromEntries(Object.entries(value).filter(([key]) => key !== name))
      : value

// Unknown names select nothing.
const placesOf = (type: ResourceType, names: string[]) =>
  names.flatMap(name => placeOf(type, name) ?? [])
