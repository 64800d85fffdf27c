"""The one way into the JVM: names of Java, its collections, functions and exceptions; the rest of us knows no py4j."""
