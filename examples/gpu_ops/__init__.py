"""A program that hashes, builds Merkle trees and transforms field elements on a GPU, and reports itself."""
